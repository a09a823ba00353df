"""Scores from a staged device equal the golden model's, whatever fits in device DRAM."""

from __future__ import annotations

import numpy as np
import pytest

from nearkv.contract import encode_query, encode_segment, score, top_k
from nearkv_drivers.device import Mode, Run, ScoreRequest
from nearkv_drivers.memory import aligned_buffer

SMALL, LARGE = 1 << 20, 64 << 20


def padded(blocks: np.ndarray) -> np.ndarray:
    data = aligned_buffer(-(-blocks.size // 4096) * 4096)
    data[: blocks.size] = blocks.reshape(-1)
    data[blocks.size :] = 0
    return data


class Stream:
    """Segments of one stream, written to a device one after another from a drive address on."""

    def __init__(self, rng, segments: int, blocks: int, bits: int = 4, d: int = 64, group: int = 3):
        self.bits = bits
        self.segments = [
            encode_segment(rng.normal(size=(32 * blocks, d)) + rng.normal(size=d), bits) for _ in range(segments)
        ]
        self.query = encode_query(rng.normal(size=(group, d)) * 3, self.segments, 0.125)
        self.offsets: list[int] = []

    def write(self, device, at: int, *, score_blocks: bool = True) -> int:
        for segment in self.segments:
            data = padded(segment.blocks)
            device.write(at, data, score_blocks=score_blocks).wait()
            self.offsets.append(at)
            at += data.size
        return at

    def request(self, mode=Mode.TOPK, k=20, initial_total=None) -> ScoreRequest:
        q = self.query
        runs = [
            Run(offset, len(s.blocks), q.c[i], q.r[i], q.b[i])
            for i, (offset, s) in enumerate(zip(self.offsets, self.segments, strict=True))
        ]
        return ScoreRequest(runs, q.q, self.bits, mode, k, initial_total)

    def check(self, result, mode=Mode.TOPK, k=20, initial_total=None) -> None:
        expected = score(self.query, self.segments, initial_total)
        np.testing.assert_array_equal(result.total, expected.total)
        np.testing.assert_array_equal(result.bad, expected.bad)
        if mode is Mode.MASS:
            np.testing.assert_array_equal(result.log_mass, expected.log_mass)
        else:
            positions, priorities = top_k(expected, k)
            np.testing.assert_array_equal(result.positions, positions)
            np.testing.assert_array_equal(result.priorities, priorities)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("ddr", [SMALL, LARGE])
def test_scores_equal_the_golden_model(make_device, rng, ddr, bits, mode):
    device = make_device(ddr)
    streams = [Stream(rng, 3, 200, bits) for _ in range(2)]
    at = 8192
    for stream in streams:
        at = stream.write(device, at)
    t0 = np.array([-(2**31), 0, 500], np.int32)
    results = device.submit([s.request(mode, initial_total=t0) for s in streams]).wait()
    for stream, result in zip(streams, results, strict=True):
        stream.check(result, mode, initial_total=t0)
