"""The golden model behind the kernel seam: what staging tests compare and run with."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from nearkv.contract.kernel import fold_total, top_k
from nearkv_drivers.device import ScoreResult
from nearkv_drivers.kernel import Command
from nearkv_drivers.wire import Query, Scores, Segment, block_bytes
from nearkv_sim.stimulus import expected_result


def reduce_golden(log_mass, initial_total, k):
    total = np.array([fold_total(int(t), row) for t, row in zip(initial_total, log_mass, strict=True)], np.int32)
    if not k:
        return total, np.empty(0, np.uint32), np.empty(0, np.uint32)
    return total, *top_k(Scores(log_mass, total), k)


def run_golden(memory: np.ndarray, base: int, command: Command) -> ScoreResult:
    width, bits = command.q.shape[1], command.bits
    size = block_bytes(width, bits)
    starts = [int(address) - base for address in command.addresses]
    runs = [
        memory[start : start + int(count) * size].reshape(-1, size)
        for start, count in zip(starts, command.blocks, strict=True)
    ]
    segments = [Segment(run, np.zeros(1, np.float32), 1.0, bits, width, 0) for run in runs]
    query = Query(command.q, command.c, command.r, command.b)
    return expected_result(query, segments, command.mode, command.k, command.initial_total)


class _Handle:
    def __init__(self, future):
        self._future = future

    def wait(self):
        return self._future.result()

    def done(self):
        return self._future.done()


class GoldenKernel:
    """Runs starts one after the other on a thread of its own, as a card does; ``gate`` (an Event) holds them back."""

    def __init__(self, memory: np.ndarray, base: int = 0, gate=None) -> None:
        self._memory = memory
        self._base = base
        self._gate = gate
        self._pool = ThreadPoolExecutor(1)
        self.starts: list[Sequence[Command]] = []

    def start(self, commands: Sequence[Command]) -> _Handle:
        self.starts.append(commands)
        return _Handle(self._pool.submit(self._run, commands))

    def _run(self, commands):
        if self._gate is not None:
            self._gate.wait()
        return [run_golden(self._memory, self._base, command) for command in commands]

    def close(self) -> None:
        self._pool.shutdown(wait=True)
