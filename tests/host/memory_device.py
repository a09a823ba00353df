"""A drive in memory whose kernel is the golden model: what the host's tests run against, and can break on purpose."""

from __future__ import annotations

import ctypes

import numpy as np

from nearkv.contract import score, top_k
from nearkv_drivers.device import ALIGNMENT, Capabilities, Mode, ScoreResult, StorageError, Telemetry
from nearkv_drivers.wire import Query, Scores, Segment, block_bytes


class Done:
    def __init__(self, value=None, error=None):
        self.value, self.error = value, error

    def wait(self):
        if self.error:
            raise self.error
        return self.value

    def done(self):
        return True


class MemoryDevice:
    url = "memory:"
    capabilities = Capabilities("golden model in memory", simulated=True)

    def __init__(self):
        self.data = np.zeros(1 << 20, np.uint8)
        self.counters = Telemetry()
        self.fail_reads = self.fail_writes = 0

    def write(self, offset, data, *, score_blocks=False):
        assert offset % ALIGNMENT == 0
        assert data.size % ALIGNMENT == 0
        assert data.ctypes.data % ALIGNMENT == 0
        if self.fail_writes:
            self.fail_writes -= 1
            return Done(error=StorageError("memory: the drive is full"))
        while offset + data.size > self.data.size:
            self.data = np.concatenate([self.data, np.zeros_like(self.data)])
        self.data[offset : offset + data.size] = data
        self.counters.host_to_drive += data.size
        return Done()

    def read(self, offsets, length, addresses):
        assert length % ALIGNMENT == 0
        if self.fail_reads:
            self.fail_reads -= 1
            return Done(error=StorageError("memory: a read failed"))
        for offset, address in zip(offsets.tolist(), addresses.tolist(), strict=True):
            assert offset % ALIGNMENT == 0
            assert address % ALIGNMENT == 0
            ctypes.memmove(address, self.data[offset : offset + length].ctypes.data, length)
            self.counters.drive_to_host += length
        return Done()

    def submit(self, requests):
        return Done([self._score(request) for request in requests])

    def _score(self, request):
        size = block_bytes(request.q.shape[1], request.bits)
        segments = [
            Segment(
                self.data[run.offset : run.offset + run.blocks * size].reshape(run.blocks, size),
                np.zeros(request.q.shape[1], np.float32), 1.0, request.bits, request.q.shape[1], run.blocks * 32,
            )
            for run in request.runs
        ]  # fmt: skip
        stack = [np.stack([getattr(run, name) for run in request.runs]) for name in "crb"]
        scores: Scores = score(Query(request.q, *stack), segments, request.initial_total)
        self.counters.commands += 1
        self.counters.blocks_scored += scores.log_mass.shape[1]
        if request.mode is Mode.MASS:
            return ScoreResult(scores.total, scores.bad, log_mass=scores.log_mass)
        return ScoreResult(scores.total, scores.bad, *top_k(scores, request.k))

    def flush(self):
        pass

    def telemetry(self):
        return self.counters

    def close(self):
        pass
