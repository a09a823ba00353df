"""Counters of a cache: what was selected, what was hot, how long each part took."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from nearkv.tiers.emergency import Event


@dataclass
class CacheStats:
    """Counters since the cache was made. Times are host seconds."""

    steps: int = 0
    """Decode steps, counted at the first tiered layer."""
    hits: int = 0
    """Selected blocks found in the hot pool, sinks left out: they never leave it."""
    misses: int = 0
    """Selected blocks that were fetched from the drive."""
    reads: int = 0
    """Drive reads that fetched them: blocks that lie side by side on the drive are one read."""
    promotions: int = 0
    """Fetched blocks that stayed hot."""
    demotions: int = 0
    """Blocks that left the hot pool: their DRAM copy was dropped."""
    warm_blocks: int = 0
    """Blocks read from the drive to fill the pool at the end of a prompt."""
    hot_bound: str = ""
    """What kept more blocks from being hot at the last step (:class:`~nearkv.cache.hot_budget.Bound`)."""
    events: list[Event] = field(default_factory=list)
    """What the emergency mode changed, and why."""
    bad_score_blocks: int = 0
    """Score blocks that the device reported as damaged; they were left out of the selection."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Host seconds by part of the decode step: score, fetch, gather, attend, admit; and parts of fetch and of warming
    up: link, which waited for the link's cap, and decode, which brought cold blocks to the model's type."""

    @property
    def hit_rate(self) -> float:
        """Share of selected blocks that were in the hot pool."""
        return self.hits / max(self.hits + self.misses, 1)

    def timed(self, part: str) -> AbstractContextManager[None]:
        """Add the time spent inside to ``part``."""
        return _Timer(self.seconds, part)


class _Timer:
    """Cheaper than a generator: a decode step enters it four times per layer."""

    __slots__ = ("_part", "_seconds", "_start")

    def __init__(self, seconds: dict[str, float], part: str) -> None:
        self._seconds, self._part = seconds, part

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self._seconds[self._part] = self._seconds.get(self._part, 0.0) + time.perf_counter() - self._start
