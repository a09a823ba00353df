"""The score kernel on a board behind the kernel seam: registers by MMIO, one start after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nearkv_drivers.boards.memory import allocate
from nearkv_drivers.boards.overlay import BoardError, KernelOverlay
from nearkv_drivers.device import ALIGNMENT, ScoreResult
from nearkv_drivers.hardware import kernel_interface
from nearkv_drivers.hardware_figures import RunFigures
from nearkv_drivers.hardware_start import HardwareStart, QueuedStart, around_empty
from nearkv_drivers.kernel import Command, Reduction
from nearkv_drivers.kernel_memory import BEAT

PATIENCE_SECONDS = 30.0
"""How long a start may take: 4 GB at a tenth of a board's memory bandwidth."""

SHORTEST_SLEEP, LONGEST_SLEEP = 20e-6, 1e-3
"""Seconds between two looks at the control register."""

START, DONE, IDLE, CONTINUE = 1 << 0, 1 << 1, 1 << 2, 1 << 4
"""Bits of the control register (docs/kernel-interface.md)."""

_INTERFACE = kernel_interface()
_CONTROL = next(each["offset"] for each in _INTERFACE["registers"] if each["name"] == "control")
_ARGUMENTS = {each["name"]: each for each in _INTERFACE["arguments"]}


class BoardKernel:
    """Runs on ``keys``, the buffer that command addresses count from. ``figures`` counts the runs."""

    def __init__(self, overlay: KernelOverlay, keys: Any, reduction: Reduction) -> None:
        self.figures = RunFigures()
        self._overlay = overlay
        self._keys = keys
        self._reduction = reduction
        self._name = f"the kernel {overlay.name} on this board"
        self._buffers: dict[str, Any] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nearkv-board")
        self._closing = threading.Lock()

    def start(self, commands: Sequence[Command]) -> QueuedStart:
        """Queue ``commands`` as one start and return at once."""
        return QueuedStart(self._thread.submit(around_empty, list(commands), self._run, self._reduction))

    def close(self) -> None:
        """Wait for what is queued, then give the buffers up."""
        with self._closing:
            self._thread.shutdown(wait=True)
            self._buffers.clear()

    def _run(self, commands: list[Command]) -> list[ScoreResult]:
        start = HardwareStart(commands, self._name)
        image = start.image
        given = self._buffer("commands", image.commands.size)[: image.commands.size]
        given[:] = image.commands
        given.flush()
        results = self._buffer("results", image.result_bytes)[: image.result_bytes]
        record = results[:BEAT]
        start.clear(record)
        record.flush()
        self._start(len(start))
        self._wait()
        results.invalidate()
        self.figures.add(start.completion(results), len(start))
        return start.results(results)

    def _buffer(self, name: str, size: int) -> Any:
        """The buffer of the argument ``name`` with at least ``size`` bytes; grows seldom."""
        if name not in self._buffers or self._buffers[name].size < size:
            self._buffers.pop(name, None)
            room = max(ALIGNMENT, 1 << (size - 1).bit_length())
            self._buffers[name] = allocate(self._overlay.pynq, room, f"a start's {name}")
        return self._buffers[name]

    def _start(self, requests: int) -> None:
        if not self._control() & IDLE:
            raise BoardError(
                f"{self._name} is not idle: another process uses it, or it hangs; load the bitstream again"
            )
        self._set("requests", requests)
        self._set("commands", int(self._buffers["commands"].device_address))
        self._set("keys", int(self._keys.device_address))
        self._set("results", int(self._buffers["results"].device_address))
        self._overlay.registers.write(_CONTROL, START)

    def _set(self, name: str, value: int) -> None:
        """Write an argument, 32 bits at a time: MMIO takes a Python int of one register."""
        argument = _ARGUMENTS[name]
        for word in range(argument["size"] // 4):
            self._overlay.registers.write(argument["offset"] + 4 * word, value >> 32 * word & 0xFFFFFFFF)

    def _wait(self) -> None:
        deadline, sleep = time.monotonic() + PATIENCE_SECONDS, SHORTEST_SLEEP
        while not self._control() & DONE:
            if time.monotonic() > deadline:
                raise BoardError(
                    f"{self._name} did not finish in {PATIENCE_SECONDS:.0f} s: its memory does not answer; check that "
                    "its ports reach the board's DRAM, and load the bitstream again"
                )
            time.sleep(sleep)
            sleep = min(2 * sleep, LONGEST_SLEEP)
        self._overlay.registers.write(_CONTROL, CONTINUE)

    def _control(self) -> int:
        return int(self._overlay.registers.read(_CONTROL))
