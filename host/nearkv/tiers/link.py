"""The transfer path from the drive: its rate, configured or measured, and the share of it that may be used."""

from __future__ import annotations

import time
from collections.abc import Callable

from nearkv.tiers.token_bucket import TokenBucket

BURST_BYTES = 1 << 20
"""Bytes that pass at once under a cap: about what a drive needs per request for its full rate."""


class Link:
    """A path of ``rate`` bytes/s; without one, the fastest transfer so far is taken for it.

    :meth:`cap` limits its use to a share of that rate by a token bucket. Without a cap nothing waits.
    """

    def __init__(
        self,
        rate: float | None = None,
        *,
        burst: int = BURST_BYTES,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if rate is not None and not rate > 0:
            raise ValueError(f"the rate of a link must be positive, not {rate}")
        self.rate, self._measures = rate, rate is None
        self.share = 1.0
        self._burst, self._clock, self._sleep = burst, clock, sleep
        self._bucket: TokenBucket | None = None

    def cap(self, share: float) -> None:
        """Use at most ``share`` (0..1] of the rate from now on; 1 lifts the cap."""
        if not 0 < share <= 1:
            raise ValueError(f"the share of a link must lie in (0, 1], not {share}")
        self.share = share
        self._follow()

    def take(self, nbytes: int) -> None:
        """Wait until ``nbytes`` may pass."""
        if self._bucket is not None:
            self._bucket.take(nbytes)

    def measured(self, nbytes: int, seconds: float) -> None:
        """A transfer of ``nbytes`` took ``seconds``, waiting for the cap left out."""
        if self._measures and seconds > 0 and nbytes > (self.rate or 0) * seconds:
            self.rate = nbytes / seconds
            self._follow()

    def _follow(self) -> None:
        """Let the bucket have the rate that holds now."""
        if self.share >= 1 or self.rate is None:
            self._bucket = None
        elif self._bucket is None:
            self._bucket = TokenBucket(self.rate * self.share, self._burst, clock=self._clock, sleep=self._sleep)
        else:
            self._bucket.set_rate(self.rate * self.share)
