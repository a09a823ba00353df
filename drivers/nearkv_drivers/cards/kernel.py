"""The score kernel on a card behind the kernel seam: starts are XRT runs, spread over its compute units."""

from __future__ import annotations

import contextlib
import heapq
import threading
import time
from collections.abc import Sequence
from typing import Any

from nearkv_drivers.cards.model import CardError
from nearkv_drivers.cards.session import XrtCard
from nearkv_drivers.cards.slots import Slot
from nearkv_drivers.cards.xrt import tool_name
from nearkv_drivers.device import ScoreResult
from nearkv_drivers.hardware_figures import RunFigures
from nearkv_drivers.hardware_start import HardwareStart, around_empty
from nearkv_drivers.kernel import Command, Reduction

PATIENCE_SECONDS = 30.0
"""How long a run may take. One over 4 GB at half of DDR4-2400's rate takes 0.4 s; others may be queued before it."""

SHORTEST_SLEEP, LONGEST_SLEEP = 20e-6, 1e-3
"""Seconds between two looks at a run. A start costs tens of microseconds."""


def spread(commands: Sequence[Command], units: int) -> list[list[int]]:
    """Indices of ``commands`` in at most ``units`` shares of about equally many blocks, the longest request first."""
    sizes = [int(command.blocks.sum()) for command in commands]
    shares: list[list[int]] = [[] for _ in range(min(units, len(commands)))]
    load = [(0, share) for share in range(len(shares))]
    for index in sorted(range(len(commands)), key=lambda i: -sizes[i]):
        blocks, share = heapq.heappop(load)
        shares[share].append(index)
        heapq.heappush(load, (blocks + sizes[index], share))
    return shares


class CardStart:
    """A start in flight: one run for each share of its commands."""

    def __init__(self, kernel: CardKernel, commands: Sequence[Command]) -> None:
        self._kernel = kernel
        self._commands = commands
        self._lock = threading.Lock()
        self._results: list[ScoreResult] | None = None
        self._parts: list[tuple[list[int], HardwareStart, Slot]] = []
        real = [command for command in commands if len(command.blocks)]
        try:
            for share in spread(real, kernel.compute_units):
                self._parts.append((share, *kernel.launch([real[i] for i in share])))
        except BaseException:
            with contextlib.suppress(Exception):  # what runs already must end before its buffers go
                self._collect(real)
            raise

    def wait(self) -> list[ScoreResult]:
        """One result per command, in order."""
        with self._lock:
            if self._results is None:
                self._results = around_empty(self._commands, self._collect, self._kernel.reduction)
            return self._results

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return self._results is not None or all(self._kernel.ended(slot) for _, _, slot in self._parts)

    def _collect(self, commands: list[Command]) -> list[ScoreResult]:
        """Wait for all runs, also where one fails: none may write results when this has returned."""
        results: dict[int, ScoreResult] = {}
        failure: Exception | None = None
        for share, start, slot in self._parts:
            try:
                results |= zip(share, self._kernel.finish(start, slot), strict=True)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return [results[i] for i in range(len(commands))]


class CardKernel:
    """Runs on ``keys``, the buffer that command addresses count from, over ``compute_units`` at a time.

    XRT gives each run to a unit that is idle. ``figures`` counts the runs.
    """

    def __init__(self, card: XrtCard, keys: Any, reduction: Reduction, compute_units: int = 1) -> None:
        self.compute_units = compute_units
        self.reduction = reduction
        self.figures = RunFigures()
        self._card = card
        self._keys = keys
        self._name = f"the kernel on card {card.address}"
        self._lock = threading.Lock()
        self._idle: list[Slot] = []
        self._stuck: list[Slot] = []  # their runs may still write
        state = card.xrt.ert_cmd_state
        self._completed = state.ERT_CMD_STATE_COMPLETED
        self._failed = (
            state.ERT_CMD_STATE_ERROR, state.ERT_CMD_STATE_ABORT, state.ERT_CMD_STATE_TIMEOUT,
            state.ERT_CMD_STATE_NORESPONSE, state.ERT_CMD_STATE_SKERROR, state.ERT_CMD_STATE_SKCRASHED,
        )  # fmt: skip

    def start(self, commands: Sequence[Command]) -> CardStart:
        """Begin ``commands`` and return at once."""
        return CardStart(self, list(commands))

    def launch(self, commands: Sequence[Command]) -> tuple[HardwareStart, Slot]:
        """Begin one run of ``commands``."""
        start = HardwareStart(commands, self._name)
        with self._lock:
            slot = self._idle.pop() if self._idle else Slot(self._card, self._keys)
        slot.start(start)
        return start, slot

    def ended(self, slot: Slot) -> bool:
        """Whether the run of ``slot`` is over, well or not."""
        state = slot.run.state()
        return bool(state == self._completed or state in self._failed)

    def finish(self, start: HardwareStart, slot: Slot) -> list[ScoreResult]:
        """Wait for a run, and give its slot to the next. Raises CardError where the run failed or does not end.

        Looks and sleeps, because pyxrt's wait keeps the interpreter from running any other thread.
        """
        deadline, sleep = time.monotonic() + PATIENCE_SECONDS, SHORTEST_SLEEP
        while not self.ended(slot):
            if time.monotonic() > deadline:
                self._stuck.append(slot)
                raise CardError(
                    f"{self._name} did not finish in {PATIENCE_SECONDS:.0f} s: reset the card ({self._reset}) and "
                    "start again"
                )
            time.sleep(sleep)
            sleep = min(2 * sleep, LONGEST_SLEEP)
        state = slot.run.state()
        if state != self._completed:
            raise CardError(
                f"{self._name} ended with {state}: see dmesg, reset the card ({self._reset}) and start again"
            )
        memory = slot.results(start)
        self.figures.add(start.completion(memory), len(start))
        results = start.results(memory)
        with self._lock:
            self._idle.append(slot)
        return results

    @property
    def _reset(self) -> str:
        return f"sudo {tool_name()} reset -d {self._card.address}"

    def close(self) -> None:
        """Give runs and buffers up; nothing is in flight any more."""
        with self._lock:
            self._idle.clear()
            self._stuck.clear()
