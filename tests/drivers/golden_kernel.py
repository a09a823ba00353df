"""The golden model behind the kernel seam: what staging tests compare and run with."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from nearkv.contract.kernel import block_log_mass, fold_total, token_scores, top_k, unpack_blocks
from nearkv_drivers.device import Mode, ScoreResult
from nearkv_drivers.kernel import Command
from nearkv_drivers.wire import Scores, block_bytes


def reduce_golden(log_mass, initial_total, k):
    total = np.array([fold_total(int(t), row) for t, row in zip(initial_total, log_mass, strict=True)], np.int32)
    if not k:
        return total, np.empty(0, np.uint32), np.empty(0, np.uint32)
    return total, *top_k(Scores(log_mass, total), k)


def run_golden(memory: np.ndarray, base: int, command: Command) -> ScoreResult:
    group, width = command.q.shape
    size = block_bytes(width, command.bits)
    masses, bad, position = [np.zeros((group, 0), np.int64)], [], 0
    for i, (address, count) in enumerate(zip(command.addresses, command.blocks, strict=True)):
        start = int(address) - base
        blocks = memory[start : start + int(count) * size].reshape(int(count), size)
        m, keys, ok = unpack_blocks(blocks, command.bits, width)
        bad += [position + int(j) for j in np.flatnonzero(~ok)]
        position += int(count)
        masses.append(
            block_log_mass(token_scores(command.q, keys, m, command.c[i], command.r[i], command.b[i]), m != 0)
        )
    log_mass = np.concatenate(masses, axis=1).astype(np.int32)
    total, positions, priorities = reduce_golden(
        log_mass, command.initial_total, command.k if command.mode is Mode.TOPK else 0
    )
    returned = log_mass if command.mode is Mode.MASS else None
    return ScoreResult(total, np.array(bad, np.uint32), positions, priorities, returned)


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
