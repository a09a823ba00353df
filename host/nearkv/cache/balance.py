"""Beta at work: how much of every step's scoring the host does, from what both sides were measured to take.

The selection needs the scores of both sides, so both start together and the slower one counts. Times are those from
that start to the end of either side, overheads included: when they are equal, the split is balanced, whatever the
cost of a command is made of. Rates are re-estimated once per decode step, over all layers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearkv.cache.config import ADAPTIVE
from nearkv.cache.geometry import Geometry
from nearkv.cache.host_scoring import ScoreCopies
from nearkv.cache.stats import CacheStats
from nearkv.tiers.beta import Limit, Pipeline, Rates, Split, selection_skew, split
from nearkv.tiers.beta_control import BetaController, Measured
from nearkv_drivers.device import Device, ScoreRequest, ScoreResult, TimedHandle
from nearkv_drivers.kernel import Command

FIRST_BETA = 1.0
"""Beta until the rates are measured."""

COLD_STEPS = 1
"""Steps that are not learned from: memory is touched and threads are started for the first time."""

REST_STEPS = 256
"""Steps for which the drive scores alone where the host has nothing to give; then the rates are measured again."""

SKEW_STEPS = 32
"""Steps from one look at the skew of the selections to the next."""

_NEVER = np.zeros(0, np.uint32)


@dataclass
class Sides:
    """Bytes that host and drive scored and the seconds that each took, of one start or summed up."""

    host_bytes: int = 0
    host_seconds: float = 0.0
    drive_bytes: int = 0
    drive_seconds: float = 0.0

    def add(self, other: Sides) -> None:
        """Sum up."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def gap(self) -> float:
        """By how much the sides' times differ, as a share of the longer one."""
        longest = max(self.host_seconds, self.drive_seconds)
        return abs(self.host_seconds - self.drive_seconds) / longest if longest else 0.0


class Balance:
    """The division of scoring in one cache. ``beta`` is fixed, or "adaptive"."""

    def __init__(self, beta: float | str, stats: CacheStats, geometry: Geometry, *, skewed: bool) -> None:
        self._fixed = None if beta == ADAPTIVE else float(beta)
        self._stats, self._geometry = stats, geometry
        self._controller: BetaController | None = None
        self._skewed, self._seen = skewed, dict[tuple[int, int], npt.NDArray[np.uint32]]()
        self._steps = 0
        self._rest = 0
        self._layer = -1
        self._step = Sides()
        self._moved = (0, 0.0, 0, 0.0)
        self.last_step = Sides()
        """The sums of the last complete decode step."""
        self.total = Sides()
        self.changes = 0
        """How often beta changed."""
        self.limit = Limit.BALANCE
        """What bound the last split."""

    @property
    def beta(self) -> float:
        """Host bytes per drive byte that are aimed at."""
        if self._fixed is not None:
            return self._fixed
        return FIRST_BETA if self._controller is None else self._controller.balanced_beta

    @property
    def rates(self) -> Rates | None:
        """The running rates; None before the first step is complete."""
        return None if self._controller is None else self._controller.rates

    def selected(self, layer: int, stream: int, blocks: npt.NDArray[np.integer[Any]], count: int) -> None:
        """Count the best ``blocks`` of the ``count`` of ``stream`` in ``layer``, where the skew is corrected for."""
        if not self._skewed:
            return
        seen = self._seen.get((layer, stream), _NEVER)
        if count > len(seen):
            seen = np.pad(seen, (0, count - len(seen)))
        seen[blocks] += 1
        self._seen[layer, stream] = seen

    def begin(self, layer: int) -> None:
        """``layer`` is scored next. Its number tells when a new step begins, and the last one is learned from."""
        if layer <= self._layer:
            self._rest = max(self._rest - 1, 0)
            self._learn()
        self._layer = layer

    def split(self, total_bytes: int, dram_bytes: int, least_bytes: int) -> Split | None:
        """How to divide ``total_bytes`` of score blocks, of which the host holds ``dram_bytes``.

        None: the drive scores alone, because an adaptive beta would give the host less than half of ``least_bytes``,
        which it has to take at least. Its overhead alone is longer than the drive needs then.
        """
        if self._rest:
            return None
        parts = split(total_bytes, dram_bytes, self.beta)
        self.limit = parts.limit
        wanted = total_bytes * self.beta / (1 + self.beta)
        if self._controller is not None and wanted < least_bytes / 2:
            self.limit, self._rest, self._controller = Limit.OVERHEAD, REST_STEPS, None
            return None
        return parts

    def run(
        self, device: Device, requests: Sequence[ScoreRequest], copies: ScoreCopies, commands: Sequence[Command]
    ) -> tuple[list[ScoreResult], list[ScoreResult], float, float]:
        """Score ``requests`` on the drive and ``commands`` on the host, both at once.

        Returns the drive's results, the host's, and the seconds that drive and host took. Whatever fails, nothing is
        in flight when this returns.
        """
        begin = time.monotonic()
        drive = device.submit(requests)
        try:
            host = copies.start(commands)
            host_results = host.wait()
            host_end = _finished(host)
        finally:
            drive_results = drive.wait()
        return drive_results, host_results, _finished(drive) - begin, host_end - begin

    def observe(self, sides: Sides) -> None:
        """Take note of what one layer's scoring took."""
        self._step.add(sides)

    def report(self) -> dict[str, object]:
        """The figures that people ask for: bytes, seconds, bytes per second."""
        rates = self.rates
        return {
            "beta": self.beta,
            "adaptive": self._fixed is None,
            "limit": self.limit.value,
            "host_bytes": self.total.host_bytes,
            "drive_bytes": self.total.drive_bytes,
            "last_step": {**vars(self.last_step), "gap": self.last_step.gap},
            "rates": None if rates is None else vars(rates).copy(),
            "changes": self.changes,
        }

    def _learn(self) -> None:
        """Learn from the step that is complete."""
        step, self._step = self._step, Sides()
        if not step.drive_bytes:
            return
        self.last_step = step
        self.total.add(step)
        self._steps += 1
        if self._fixed is not None or self._steps <= COLD_STEPS or not step.host_bytes or not step.drive_bytes:
            return
        scored = {
            "host_score": Measured(step.host_bytes, step.host_seconds),
            "drive_score": Measured(step.drive_bytes, step.drive_seconds),
        }
        if self._controller is None:
            rates = Rates(**{name: side.nbytes / side.seconds for name, side in scored.items()})
            self._controller = BetaController(rates, alpha=0.0, pipeline=Pipeline.OVERLAPPED)
        if self._skewed and self._steps % SKEW_STEPS == 0:
            self._controller.set_skew(float(np.mean([selection_skew(seen) for seen in self._seen.values()])))
        self.changes += self._controller.observe(**scored, **self._links())

    def _links(self) -> dict[str, Measured]:
        """What moved since the last step: hot blocks to attention, and missing blocks from the drive."""
        seconds, geometry = self._stats.seconds, self._geometry
        now = (
            self._stats.hits * geometry.kv_block_bytes,
            seconds.get("gather", seconds.get("attend", 0.0)),
            self._stats.misses * geometry.drive_block_bytes,
            seconds.get("fetch", 0.0),
        )
        hot, hot_seconds, cold, cold_seconds = (after - before for after, before in zip(now, self._moved, strict=True))
        self._moved = now
        return {"host_link": Measured(int(hot), hot_seconds), "drive_link": Measured(int(cold), cold_seconds)}


def _finished(handle: object) -> float:
    """When the start behind ``handle``, which was waited for, ended. One that does not say so ended just now."""
    return handle.finished if isinstance(handle, TimedHandle) else time.monotonic()
