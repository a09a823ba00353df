"""The Verilated kernel behind the kernel seam: packs command memory, starts it once, decodes result memory."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import DeviceError, ScoreResult
from nearkv_drivers.hardware_start import HardwareStart, QueuedStart, around_empty
from nearkv_drivers.kernel import Command, Reduction
from nearkv_drivers.kernel_memory import BEAT
from nearkv_drivers.memory import address_of, aligned_buffer
from nearkv_drivers.rtl_figures import Figures, Start

_MESSAGE_BYTES = 256


class _Counters(ctypes.Structure):
    """``NearkvRtlFigures`` of sim/verilated/device.cpp."""

    _fields_ = (
        ("cycles", ctypes.c_uint64),
        ("key_waits", ctypes.c_uint64),
        ("status", ctypes.c_uint32),
        ("failed", ctypes.c_uint32),
        ("completed", ctypes.c_uint32),
        ("beats", ctypes.c_uint32),
        ("stream_cycles", ctypes.c_uint32),
    )


def _bind(library: Path) -> ctypes.CDLL:
    """The C interface of sim/verilated/device.cpp; calls release the interpreter lock."""
    lib = ctypes.CDLL(str(library))
    pointer, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    lib.nearkv_rtl_open.argtypes = [pointer, u64, u32, ctypes.c_double]
    lib.nearkv_rtl_open.restype = pointer
    lib.nearkv_rtl_start.argtypes = [
        pointer, u32, pointer, u64, pointer, u64, ctypes.POINTER(_Counters), ctypes.c_char_p, u64
    ]  # fmt: skip
    lib.nearkv_rtl_start.restype = ctypes.c_int
    lib.nearkv_rtl_close.argtypes = [pointer]
    lib.nearkv_rtl_close.restype = None
    return lib


class RtlKernel:
    """Runs starts one after the other, as the one kernel of a card does, on a thread of its own.

    ``memory`` (uint8 [n]) is the device DRAM from address 0 on; ``latency`` is in cycles, ``bytes_per_cycle`` is what
    the memory moves over all ports (0: a beat per port and cycle). ``reduction`` answers commands without blocks, which
    hardware refuses. ``figures`` counts what the starts cost.
    """

    def __init__(
        self,
        library: Path,
        memory: npt.NDArray[np.uint8],
        reduction: Reduction,
        *,
        latency: int,
        bytes_per_cycle: float,
    ) -> None:
        self._memory = memory
        self._reduction = reduction
        self.figures = Figures()
        self._lib = _bind(library)
        self._kernel = self._lib.nearkv_rtl_open(address_of(memory), memory.size, latency, bytes_per_cycle)
        if not self._kernel:
            raise DeviceError("no memory is left for the simulated kernel")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nearkv-rtl")
        self._closing = threading.Lock()

    def start(self, commands: Sequence[Command]) -> QueuedStart:
        """Queue ``commands`` as one start and return at once."""
        return QueuedStart(self._thread.submit(self._run, list(commands)))

    def close(self) -> None:
        """Wait for what is queued, then release the simulation."""
        with self._closing:
            self._thread.shutdown(wait=True)
            if self._kernel:
                self._lib.nearkv_rtl_close(self._kernel)
                self._kernel = None

    def _run(self, commands: list[Command]) -> list[ScoreResult]:
        return around_empty(commands, self._run_hardware, self._reduction)

    def _run_hardware(self, commands: list[Command]) -> list[ScoreResult]:
        start = HardwareStart(commands, "the simulated kernel")
        image = start.image
        results = aligned_buffer(image.result_bytes, BEAT)
        counters = _Counters()
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        failed = self._lib.nearkv_rtl_start(
            self._kernel, len(commands), address_of(image.commands), image.commands.size, address_of(results),
            results.size, ctypes.byref(counters), message, _MESSAGE_BYTES,
        )  # fmt: skip
        if failed:
            raise DeviceError(f"the simulated kernel failed: {message.value.decode(errors='replace')}")
        start.check_status(counters.status, counters.failed)
        self.figures.add(
            Start(counters.cycles, counters.beats, counters.stream_cycles, counters.key_waits, len(commands))
        )
        return start.results(results)
