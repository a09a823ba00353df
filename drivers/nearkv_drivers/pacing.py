"""Pacing: a kernel and a drive link held to stated bandwidths, so that a fast host can stand for a slower drive.

The work is done as ever; what comes back is held until the time is over that it takes at the stated rate. A path serves
one command after the other, as the one kernel of a card and its one NVMe link do. Times are simulated, results are not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import DeviceError, ScoreResult, TimedHandle
from nearkv_drivers.io_engine import IoBatch, IoEngine
from nearkv_drivers.kernel import Command, Kernel, KernelHandle
from nearkv_drivers.wire import block_bytes


class Pace:
    """A path of ``rate`` bytes per second; None: as fast as it goes."""

    def __init__(
        self,
        name: str,
        rate: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name, self._clock, self._sleep = name, clock, sleep
        self._lock = threading.Lock()
        self._free = 0.0
        self._rate: float | None = None
        self.set_rate(rate)

    @property
    def rate(self) -> float | None:
        """Bytes per second."""
        return self._rate

    def set_rate(self, rate: float | None) -> None:
        """Change the rate for what is reserved from now on. Raises DeviceError for one that is not positive."""
        if rate is not None and not 0 < rate < float("inf"):
            raise DeviceError(f"{self._name}={rate:g} moves nothing: give bytes per second, such as 1.4GiB/s")
        self._rate = rate

    def reserve(self, nbytes: int) -> float:
        """Queue ``nbytes`` behind what is on the path; returns the time (of the clock) at which they are through."""
        with self._lock:
            rate = self._rate
            if rate is None:
                return 0.0
            self._free = max(self._free, self._clock()) + nbytes / rate
            return self._free

    def wait(self, until: float) -> None:
        """Return at time ``until``."""
        left = until - self._clock()
        if left > 0:
            self._sleep(left)

    def passed(self, until: float) -> bool:
        """Whether :meth:`wait` would return at once."""
        return self._clock() >= until


class _PacedStart:
    """A start held until its time is over."""

    def __init__(self, handle: KernelHandle, pace: Pace, until: float) -> None:
        self._handle, self._pace, self._until = handle, pace, until

    def wait(self) -> list[ScoreResult]:
        results = self._handle.wait()
        self._pace.wait(self._until)
        return results

    def done(self) -> bool:
        return self._handle.done() and self._pace.passed(self._until)

    @property
    def finished(self) -> float:
        """See TimedHandle: when it was due, or later where the work itself took longer."""
        return max(self._until, self._handle.finished) if isinstance(self._handle, TimedHandle) else self._until


class PacedKernel:
    """``kernel``, scoring the bytes of its commands at ``pace``."""

    def __init__(self, kernel: Kernel, pace: Pace) -> None:
        self._kernel, self._pace = kernel, pace

    def start(self, commands: Sequence[Command]) -> KernelHandle:
        """See Kernel.start."""
        scored = sum(int(c.blocks.sum()) * block_bytes(c.q.shape[1], c.bits) for c in commands)
        until = self._pace.reserve(scored)
        return _PacedStart(self._kernel.start(commands), self._pace, until)

    def close(self) -> None:
        """See Kernel.close."""
        self._kernel.close()


class _PacedBatch:
    def __init__(self, batch: IoBatch, pace: Pace, until: float) -> None:
        self._batch, self._pace, self._until = batch, pace, until

    def wait(self) -> tuple[int, int] | None:
        failure = self._batch.wait()
        self._pace.wait(self._until)
        return failure

    def done(self) -> bool:
        return self._batch.done() and self._pace.passed(self._until)


class PacedEngine:
    """``engine``, with its reads at ``pace``. Writes are not held back: they happen behind the computation."""

    def __init__(self, engine: IoEngine, pace: Pace) -> None:
        self._engine, self._pace = engine, pace

    def submit(
        self,
        fd: int,
        write: bool,
        offsets: npt.NDArray[np.int64],
        addresses: npt.NDArray[np.uint64],
        lengths: npt.NDArray[np.int64],
    ) -> IoBatch:
        """See IoEngine.submit."""
        if write:
            return self._engine.submit(fd, write, offsets, addresses, lengths)
        moved = int(lengths.sum()) if len(lengths) == len(offsets) else len(offsets) * int(lengths[0])
        until = self._pace.reserve(moved)
        return _PacedBatch(self._engine.submit(fd, write, offsets, addresses, lengths), self._pace, until)
