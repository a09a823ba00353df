"""A token bucket in bytes: caps the average rate of a path and lets bursts of a bounded size through."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class TokenBucket:
    """``rate`` bytes per second on average, at most ``burst`` bytes at once on top. Safe for several threads.

    A transfer larger than the burst is let through once the bucket is full, and its excess is owed: the following
    transfers wait for it, so that the average holds for any mix of sizes.
    """

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not rate > 0 or burst < 1:
            raise ValueError(f"a token bucket needs a positive rate and burst, not {rate} and {burst}")
        self._rate, self._burst, self._clock, self._sleep = rate, burst, clock, sleep
        self._level, self._at = float(burst), clock()
        self._lock = threading.Lock()

    def set_rate(self, rate: float) -> None:
        """Change the rate from now on; what was saved or owed stays."""
        if not rate > 0:
            raise ValueError(f"the rate must be positive, not {rate}")
        with self._lock:
            self._refill()
            self._rate = rate

    def reserve(self, nbytes: int) -> float:
        """Account for a transfer of ``nbytes`` and return the seconds to wait before starting it."""
        with self._lock:
            self._refill()
            wait = max(0.0, (min(nbytes, self._burst) - self._level) / self._rate)
            self._level -= nbytes
            return wait

    def take(self, nbytes: int) -> None:
        """Wait until ``nbytes`` may pass."""
        wait = self.reserve(nbytes)
        if wait > 0:
            self._sleep(wait)

    def _refill(self) -> None:
        now = self._clock()
        self._level = min(float(self._burst), self._level + (now - self._at) * self._rate)
        self._at = now
