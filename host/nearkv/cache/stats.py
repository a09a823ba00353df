"""Counters of a cache: what was selected, what was hot, how long each part took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class CacheStats:
    """Counters since the cache was made. Times are host seconds."""

    steps: int = 0
    """Decode steps, counted at the first tiered layer."""
    selected_blocks: int = 0
    hits: int = 0
    misses: int = 0
    promotions: int = 0
    """Fetched blocks that stayed hot."""
    bad_score_blocks: int = 0
    """Score blocks that the device reported as damaged; they were left out of the selection."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Host seconds by part of the decode step: score, fetch, gather, attend, admit."""

    @property
    def hit_rate(self) -> float:
        """Share of selected blocks that were in the hot pool."""
        return self.hits / max(self.hits + self.misses, 1)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the time spent inside to ``part``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start
