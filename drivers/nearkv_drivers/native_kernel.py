"""The native score kernel behind the kernel seam: the card's kernel, on host memory that stands for its DRAM."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearkv_drivers import native
from nearkv_drivers.device import Mode, ScoreResult
from nearkv_drivers.extension import kernel as _kernel
from nearkv_drivers.kernel import Command
from nearkv_drivers.wire import Scores


class NativeStart:
    """A start of the native kernel."""

    def __init__(self, start: _kernel.Start) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._results: list[ScoreResult] | None = None

    def wait(self) -> list[ScoreResult]:
        """One result per command, in order; the waiting thread helps."""
        with self._lock:
            if self._results is None:
                self._results = [
                    ScoreResult(total, bad, positions, priorities, log_mass)
                    for total, bad, log_mass, positions, priorities in self._start.wait()
                ]
            return self._results

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return self._start.done()

    @property
    def finished(self) -> float:
        """See TimedHandle."""
        return self._start.finished()


class NativeKernel:
    """Scores commands whose addresses are offsets into ``memory`` (uint8 [n])."""

    def __init__(self, memory: npt.NDArray[np.uint8]) -> None:
        self._memory = memory

    def start(self, commands: Sequence[Command]) -> NativeStart:
        """Begin ``commands`` on the native pool and return at once."""
        return NativeStart(
            _kernel.Start(
                self._memory,
                [
                    (
                        each.q,
                        each.bits,
                        each.k if each.mode is Mode.TOPK else 0,
                        each.initial_total,
                        each.addresses,
                        each.blocks,
                        each.c,
                        each.r,
                        each.b,
                    )
                    for each in commands
                ],
            )
        )

    def close(self) -> None:
        """Nothing to release: the native pool belongs to the process."""


def reduce_native(
    log_mass: npt.NDArray[np.int32], initial_total: npt.NDArray[np.int32], k: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """The kernel's totals and top-k (``kernel.Reduction``) in native code."""
    total = native.fold_total(log_mass, initial_total)
    if not k:
        return total, np.empty(0, np.uint32), np.empty(0, np.uint32)
    return total, *native.top_k(Scores(log_mass, total), k)
