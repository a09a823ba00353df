"""A computational drive put together from its parts: a drive file, device DRAM, and a score kernel over that DRAM.

Score blocks are written through to device DRAM and staged from the drive where they are not there any more; what does
not fit at once runs in windows (``windows.py``). KV blocks go from the drive to the host without touching it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from nearkv_drivers.commands import Planned, plan
from nearkv_drivers.counters import Counters
from nearkv_drivers.device import (
    Capabilities,
    DeviceError,
    ReadHandle,
    ScoreHandle,
    ScoreRequest,
    ScoreResult,
    Telemetry,
    TimedHandle,
)
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.frames import FrameTable
from nearkv_drivers.kernel import Kernel, KernelHandle, Reduction
from nearkv_drivers.landing import InPlace, Landing
from nearkv_drivers.staging import DeviceMemory
from nearkv_drivers.windows import WindowedRun, collect, start_kernel


class _ResidentStart:
    """A kernel start on what was resident when it was submitted."""

    def __init__(self, handle: KernelHandle, counters: Counters) -> None:
        self._handle = handle
        self._counters = counters
        self._lock = threading.Lock()
        self._results: list[ScoreResult] | None = None
        self._collected = 0.0

    def wait(self) -> list[ScoreResult]:
        with self._lock:
            if self._results is None:
                self._results = collect(self._handle, self._counters)
                self._collected = time.monotonic()
            return self._results

    def done(self) -> bool:
        return self._results is not None or self._handle.done()

    @property
    def finished(self) -> float:
        """See TimedHandle; where the kernel does not know, when the results were fetched."""
        return self._handle.finished if isinstance(self._handle, TimedHandle) else self._collected


class _StagedStart:
    """A run on the staging thread."""

    def __init__(self, future: Future[tuple[list[ScoreResult], float]]) -> None:
        self._future = future

    def wait(self) -> list[ScoreResult]:
        return self._future.result()[0]

    @property
    def finished(self) -> float:
        """See TimedHandle."""
        return self._future.result()[1]

    def done(self) -> bool:
        return self._future.done()


class StagedDevice:
    """Device over ``drive``, device DRAM and ``kernel``; owns all three and closes them.

    ``memory`` is the device DRAM as the drive's reads reach it (aligned; a mapped P2P buffer on a card) and ``base``
    the kernel's address of its first byte; ``frames`` is how it is divided. ``landing`` is how the kernel comes to see
    what was written there; the device keeps it alive.
    """

    def __init__(
        self,
        url: str,
        capabilities: Capabilities,
        drive: DriveFile,
        memory: npt.NDArray[np.uint8],
        kernel: Kernel,
        reduction: Reduction,
        frames: FrameTable,
        *,
        base: int = 0,
        landing: Landing | None = None,
    ) -> None:
        self._url = url
        self._capabilities = capabilities
        self._drive = drive
        self._kernel = kernel
        self._counters = Counters()
        self._memory = DeviceMemory(drive, memory, frames, landing or InPlace(), base)
        self._windowed = WindowedRun(self._memory, kernel, reduction, self._counters)
        self._stager = ThreadPoolExecutor(1, thread_name_prefix="nearkv-stager")
        self._closing = threading.Lock()
        self._closed = False

    @property
    def url(self) -> str:
        """The URL that opened it."""
        return self._url

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self._capabilities

    def write(self, offset: int, data: npt.NDArray[np.uint8], *, score_blocks: bool = False) -> ReadHandle:
        """See Device.write: score blocks are also copied into device DRAM while a frame is free."""
        handle = self._drive.write(offset, data)
        through = self._memory.wrote(offset, data, score_blocks, handle)
        self._counters.add(host_to_drive=data.size, host_to_device=through)
        return handle

    def read(self, offsets: npt.NDArray[np.int64], length: int, addresses: npt.NDArray[np.uint64]) -> ReadHandle:
        """See Device.read."""
        handle = self._drive.read(offsets, length, addresses)
        self._counters.add(drive_to_host=len(offsets) * length)
        return handle

    def submit(self, requests: Sequence[ScoreRequest]) -> ScoreHandle:
        """See Device.submit: at once where all score blocks are resident, else from the staging thread."""
        slab_bytes, length = self._memory.table.slab_bytes, self._drive.length
        planned = [plan(request, self._capabilities, slab_bytes, length) for request in requests]
        with self._memory.lock:
            if self._closed:
                raise DeviceError(f"{self._url} is closed: open the device again")
            self._memory.table.turn += 1
            started = self._start_resident(planned)
        if started is not None:
            return started
        return _StagedStart(self._stager.submit(self._run_staged, planned))

    def _run_staged(self, planned: Sequence[Planned]) -> tuple[list[ScoreResult], float]:
        results = self._windowed(planned)
        return results, time.monotonic()

    def _start_resident(self, planned: Sequence[Planned]) -> _ResidentStart | None:
        """Start on what is resident, or None where something is not."""
        memory = self._memory
        commands = []
        slabs = set[int]()
        for one in planned:
            addresses = memory.addresses(one.layout, slabs)
            if addresses is None:
                return None
            commands.append(one.command(addresses))
        handle = start_kernel(self._kernel, planned, commands, self._counters)
        memory.pin(handle, frozenset(slabs))
        return _ResidentStart(handle, self._counters)

    def flush(self) -> None:
        """See Device.flush."""
        self._drive.flush()

    def telemetry(self) -> Telemetry:
        """A snapshot of the counters."""
        return self._counters.snapshot(self._memory.table.used_bytes)

    def close(self) -> None:
        """Wait for what is in flight, then release kernel and drive."""
        with self._closing:
            if self._closed:
                return
            with self._memory.lock:
                self._closed = True
            try:
                self._stager.shutdown(wait=True)
                self._memory.drain()
                self._kernel.close()
            finally:
                self._drive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
