"""Emergency mode: what gives when too many sequences share the machine, and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nearkv.tiers.alpha import ALPHA
from nearkv.tiers.token_bucket import TokenBucket

ALPHA_STEP = 0.01
"""Smallest change of alpha within the mode: every change moves blocks."""


@dataclass(frozen=True)
class EmergencyConfig:
    """When the mode begins and what it may do (the SmartSSD article's numbers by default).

    Above ``batch`` sequences, alpha follows the DRAM budget within ``alpha_range``, scoring drops to ``bits`` and
    the link carries at most ``link_share`` of its rate. The mode ends after ``calm_steps`` steps at or below
    ``batch``, so that one finished sequence does not end it for a step.
    """

    batch: int = 20
    alpha_range: tuple[float, float] = (0.15, 0.25)
    bits: int = 4
    link_share: float = 0.7
    calm_steps: int = 16


@dataclass(frozen=True)
class Settings:
    """What the mode decides: the hot share, the precision of scoring, and the share of the link that may be used."""

    alpha: float = ALPHA
    bits: int = 8
    link_share: float = 1.0


@dataclass(frozen=True)
class Event:
    """One change of one setting, for people: ``what`` went from ``before`` to ``after`` at ``step``, and why."""

    step: int
    what: str
    before: float
    after: float
    reason: str


class EmergencyMode:
    """Follows the load step by step; :attr:`settings` is what holds now."""

    def __init__(
        self,
        normal: Settings,
        config: EmergencyConfig | None = None,
        *,
        link: TokenBucket | None = None,
        link_rate: float = 0.0,
        listener: Callable[[Event], None] = lambda event: None,
    ) -> None:
        """``link`` is the transfer path's bucket, which runs at ``link_rate`` bytes/s when nothing is wrong."""
        self._normal, self._config = normal, config or EmergencyConfig()
        self._link, self._link_rate, self._listener = link, link_rate, listener
        self._step, self._calm = 0, 0
        self.active = False
        self.settings = normal

    def update(self, batch: int, dram_share: float) -> list[Event]:
        """One step with ``batch`` sequences whose KV would fit DRAM to a share ``dram_share`` (0..1 and above).

        Returns the changes that this step made, and passes each to the listener.
        """
        self._step += 1
        config = self._config
        loaded = batch > config.batch
        self._calm = 0 if loaded else self._calm + 1
        if loaded:
            low, high = config.alpha_range
            alpha = min(max(dram_share, low), high)
            if self.active and abs(alpha - self.settings.alpha) < ALPHA_STEP:
                alpha = self.settings.alpha
            wanted = Settings(alpha, config.bits, config.link_share)
            reason = f"batch {batch} is above {config.batch}; DRAM holds {dram_share:.1%} of its KV"
        elif self.active and self._calm < config.calm_steps:
            return []
        else:
            wanted = replace(self._normal)
            reason = f"batch was at or below {config.batch} for {self._calm} steps"
        self.active = loaded
        return self._change(wanted, reason)

    def _change(self, wanted: Settings, reason: str) -> list[Event]:
        events = [
            Event(self._step, name, before, after, reason)
            for (name, before), after in zip(vars(self.settings).items(), vars(wanted).values(), strict=True)
            if before != after
        ]
        if self._link is not None and wanted.link_share != self.settings.link_share:
            self._link.set_rate(self._link_rate * wanted.link_share)
        self.settings = wanted
        for event in events:
            self._listener(event)
        return events
