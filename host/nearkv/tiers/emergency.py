"""Emergency mode: what gives when too many sequences share the machine, and when it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from nearkv.tiers.alpha import ALPHA
from nearkv.tiers.link import Link

_LOG = logging.getLogger(__name__)

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
    """What the mode decides: the hot share, the precision of scoring, and the share of the link that may be used.

    ``alpha`` None: only the DRAM limit bounds what is hot.
    """

    alpha: float | None = ALPHA
    bits: int = 8
    link_share: float = 1.0


@dataclass(frozen=True)
class Event:
    """One change of one setting, for people: ``what`` went from ``before`` to ``after`` at ``step``, and why."""

    step: int
    what: str
    before: float | None
    after: float | None
    reason: str


class EmergencyMode:
    """Follows the load step by step; :attr:`settings` is what holds now.

    It outlives caches: :class:`~nearkv.TieredCache` takes one as ``emergency`` and calls :meth:`update` when its batch
    is known and at every decode step. A cache that starts while the mode is active encodes its prompt in ``bits``.
    """

    def __init__(
        self,
        normal: Settings,
        config: EmergencyConfig | None = None,
        *,
        link: Link | None = None,
        listener: Callable[[Event], None] = lambda event: None,
    ) -> None:
        """``link`` is the transfer path that is capped; by default one whose rate is measured."""
        self.normal, self._config = normal, config or EmergencyConfig()
        self.link = link or Link()
        self._listener = listener
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
            held = self.settings.alpha
            if self.active and held is not None and abs(alpha - held) < ALPHA_STEP:
                alpha = held
            wanted = Settings(alpha, config.bits, config.link_share)
            reason = f"batch {batch} is above {config.batch}; DRAM holds {dram_share:.1%} of its KV"
        elif self.active and self._calm < config.calm_steps:
            return []
        else:
            wanted = self.normal
            reason = f"batch was at or below {config.batch} for {self._calm} steps"
        self.active = loaded
        return self._change(wanted, reason)

    def _change(self, wanted: Settings, reason: str) -> list[Event]:
        events = [
            Event(self._step, name, before, after, reason)
            for (name, before), after in zip(vars(self.settings).items(), vars(wanted).values(), strict=True)
            if before != after
        ]
        if wanted.link_share != self.link.share:
            self.link.cap(wanted.link_share)
        self.settings = wanted
        for event in events:
            _LOG.warning("step %d: %s from %s to %s: %s", *vars(event).values())
            self._listener(event)
        return events
