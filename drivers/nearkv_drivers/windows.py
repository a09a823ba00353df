"""Scoring what does not lie in device DRAM: stage it, and where it does not fit at once, in windows.

Two windows share device DRAM: while the kernel runs over one, the drive fills the next. Every window runs in mode MASS;
totals and top-k come from the log-masses of all windows with the kernel's own integer operators, so that the result
equals, bit for bit, that of a run with everything resident.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nearkv_drivers.commands import Piece, Planned, result_bytes
from nearkv_drivers.counters import Counters
from nearkv_drivers.device import Mode, ScoreResult
from nearkv_drivers.kernel import Command, Kernel, KernelHandle, Reduction
from nearkv_drivers.staging import DeviceMemory, Staging
from nearkv_drivers.wire import EMPTY, block_bytes


def start_kernel(
    kernel: Kernel, planned: Sequence[Planned], commands: Sequence[Command], counters: Counters
) -> KernelHandle:
    """Start ``kernel`` once on the ``commands`` of what is ``planned``, and count what crosses to it."""
    handle = kernel.start(commands)
    blocks = [one.layout.total for one in planned]
    scored = sum(n * block_bytes(c.q.shape[1], c.bits) for n, c in zip(blocks, commands, strict=True))
    counters.add(
        commands=1,
        host_to_device=sum(command.nbytes for command in commands),
        blocks_scored=sum(blocks),
        bytes_scored=scored,
    )
    return handle


def collect(handle: KernelHandle, counters: Counters) -> list[ScoreResult]:
    """Wait for a kernel start and count what it returned."""
    results = handle.wait()
    counters.add(
        device_to_host=sum(result_bytes(result) for result in results),
        bad_blocks=sum(len(result.bad) for result in results),
    )
    return results


class _Gathered:
    """The log-masses of one request, filled in by windows."""

    def __init__(self, planned: Planned) -> None:
        self._request = planned.request
        self._log_mass = np.full((len(planned.request.q), planned.layout.total), EMPTY, np.int32)
        self._bad: list[npt.NDArray[np.uint32]] = []

    def put(self, pieces: Sequence[Piece], result: ScoreResult) -> None:
        """Place what a window returned for ``pieces``."""
        if not pieces:
            return
        assert result.log_mass is not None
        positions = np.concatenate([np.arange(p.position, p.position + p.blocks, dtype=np.uint32) for p in pieces])
        self._log_mass[:, positions] = result.log_mass
        self._bad.append(positions[result.bad])

    def result(self, reduction: Reduction) -> ScoreResult:
        """What the kernel would have returned for the whole request."""
        request = self._request
        start = request.initial_total
        initial = np.full(request.q.shape[0], EMPTY, np.int32) if start is None else start
        k = request.k if request.mode is Mode.TOPK else 0
        total, positions, priorities = reduction(self._log_mass, initial, k)
        bad = np.sort(np.concatenate(self._bad)) if self._bad else np.empty(0, np.uint32)
        log_mass = self._log_mass if request.mode is Mode.MASS else None
        return ScoreResult(total, bad, positions, priorities, log_mass)


class WindowedRun:
    """Stages and runs requests; one call at a time, on the device's staging thread."""

    def __init__(self, memory: DeviceMemory, kernel: Kernel, reduction: Reduction, counters: Counters) -> None:
        self._memory = memory
        self._kernel = kernel
        self._reduction = reduction
        self._counters = counters
        self._staging: Staging | None = None
        self._running: tuple[Sequence[Planned], KernelHandle] | None = None

    def __call__(self, planned: Sequence[Planned]) -> list[ScoreResult]:
        """One result per request. Whatever happens, nothing is in flight when this returns."""
        needs: dict[int, int] = {}
        for piece in (piece for one in planned for piece in one.layout.pieces):
            needs[piece.slab] = needs.get(piece.slab, 0) | piece.pages
        try:
            if len(needs) <= self._memory.table.count:
                return self._run_at_once(planned, needs)
            return self._run_in_windows(planned, needs)
        finally:
            self._quiesce()

    def _run_at_once(self, planned: Sequence[Planned], needs: Mapping[int, int]) -> list[ScoreResult]:
        self._stage(needs, needs.keys())
        self._finish_staging()
        self._running = planned, self._start(planned, None)
        return collect(self._running[1], self._counters)

    def _run_in_windows(self, planned: Sequence[Planned], needs: Mapping[int, int]) -> list[ScoreResult]:
        gathered = [_Gathered(one) for one in planned]
        windows = self._windows(needs)
        self._stage({slab: needs[slab] for slab in windows[0]}, windows[0])
        for window, following in zip(windows, [*windows[1:], None], strict=True):
            self._finish_staging()
            parts = [one.part(window) for one in planned]
            handle = self._start(parts, Mode.MASS)
            self._gather(gathered)  # the window before this one gives its frames up
            self._running = parts, handle
            if following is not None:
                self._stage({slab: needs[slab] for slab in following}, window | following)
        self._gather(gathered)
        return [one.result(self._reduction) for one in gathered]

    def _windows(self, needs: Mapping[int, int]) -> list[frozenset[int]]:
        """Halves of device DRAM, what is resident first: it needs no reading while it is still there."""
        order = self._memory.resident_first(needs)
        half = self._memory.table.count // 2
        return [frozenset(order[i : i + half]) for i in range(0, len(order), half)]

    def _stage(self, needs: Mapping[int, int], held: Collection[int]) -> None:
        self._memory.hold(frozenset(held))
        self._staging = self._memory.begin(needs)
        self._counters.add(**{self._memory.landing.path: self._staging.bytes})

    def _finish_staging(self) -> None:
        staging, self._staging = self._staging, None
        if staging is not None:
            self._memory.finish(staging)

    def _start(self, planned: Sequence[Planned], mode: Mode | None) -> KernelHandle:
        address = self._memory.device_address
        with self._memory.lock:
            commands = [
                one.command([address(piece.slab, piece.at) for piece in one.layout.pieces], mode) for one in planned
            ]
        return start_kernel(self._kernel, planned, commands, self._counters)

    def _gather(self, gathered: Sequence[_Gathered]) -> None:
        running, self._running = self._running, None
        if running is not None:
            parts, handle = running
            for one, part, result in zip(gathered, parts, collect(handle, self._counters), strict=True):
                one.put(part.layout.pieces, result)

    def _quiesce(self) -> None:
        """After an error: wait for what is still in flight, then let the frames go."""
        running, self._running = self._running, None
        staging, self._staging = self._staging, None
        try:
            if running is not None:
                running[1].wait()
        finally:
            try:
                if staging is not None:
                    self._memory.finish(staging)
            finally:
                self._memory.hold(frozenset())
