"""Streams of score blocks for device tests: written, requested, and checked against the golden model."""

from __future__ import annotations

import numpy as np

from nearkv.contract import encode_query, encode_segment
from nearkv_drivers.device import Mode, Run, ScoreRequest
from nearkv_drivers.memory import aligned_buffer
from nearkv_sim.stimulus import compare, expected_result


def padded(blocks: np.ndarray) -> np.ndarray:
    """The bytes of ``blocks``, zeros up to the next multiple of 4,096."""
    data = aligned_buffer(-(-blocks.size // 4096) * 4096)
    data[: blocks.size] = blocks.reshape(-1)
    data[blocks.size :] = 0
    return data


class Stream:
    """Segments of one stream, written to a device one after another from a drive address on."""

    def __init__(self, rng, segments: int, blocks: int, bits: int = 4, d: int = 32, group: int = 3):
        self.bits = bits
        self.segments = [
            encode_segment(rng.normal(size=(32 * blocks, d)) + rng.normal(size=d), bits) for _ in range(segments)
        ]
        self.query = encode_query(rng.normal(size=(group, d)) * 3, self.segments, 0.125)
        self.offsets: list[int] = []

    @property
    def stored_bytes(self) -> int:
        return sum(padded(segment.blocks).size for segment in self.segments)

    def write(self, device, at: int, *, score_blocks: bool = True) -> int:
        """Write every segment from drive address ``at`` on; returns the address after the last."""
        self.offsets = []
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
        """Assert that ``result`` is what the golden model returns."""
        compare(expected_result(self.query, self.segments, mode, k, initial_total), result)


def two_streams(rng, bits: int, d: int, group: int) -> list[Stream]:
    """Two streams of two segments; a block of the second one is damaged."""
    streams = [Stream(rng, 2, 5120 // d, bits, d, group) for _ in range(2)]
    streams[1].segments[1].blocks[7, 5] ^= 4
    return streams


def write_all(device, streams: list[Stream]) -> None:
    """Write ``streams`` one after the other, all but the first as score blocks."""
    at = 0
    for i, stream in enumerate(streams):
        at = stream.write(device, at, score_blocks=bool(i))


def write_and_score(device, streams: list[Stream], mode, initial_total=None) -> list:
    """Results of both ``streams`` after :func:`write_all`, and of the first again."""
    write_all(device, streams)
    requests = [stream.request(mode, 2048, initial_total) for stream in streams]
    return [*device.submit(requests).wait(), *device.submit(requests[:1]).wait()]
