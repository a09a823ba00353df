"""Online re-estimation of beta: throughput drifts (a hot drive, a busy link), the split follows, without jitter."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass

from nearkv.tiers.beta import Pipeline, Rates, Split, beta, split

WINDOW = 7
"""Steps whose median is the running rate: a jump is caught up in four steps, and three stalled ones do not count."""

HYSTERESIS = 0.04
"""Relative change of the balanced beta below which the split stays as it is."""


@dataclass(frozen=True)
class Measured:
    """One step's bytes and seconds of one path."""

    nbytes: int
    seconds: float


class BetaController:
    """Keeps running rates and the balanced beta that follows from them. ``rates`` hold until something is measured."""

    def __init__(self, rates: Rates, *, alpha: float, pipeline: Pipeline, skew: float = 0.0) -> None:
        self._rates, self._alpha, self._pipeline, self._skew = rates, alpha, pipeline, skew
        self._paces = {name: deque[float](maxlen=WINDOW) for name in vars(rates)}
        self._beta = beta(rates, alpha, pipeline, skew)

    @property
    def rates(self) -> Rates:
        """The running rates."""
        return self._rates

    @property
    def balanced_beta(self) -> float:
        """The beta in force."""
        return self._beta

    def split(self, total_bytes: int, dram_bytes: int) -> Split:
        """How to divide the next step's ``total_bytes``, of which ``dram_bytes`` may be hot."""
        return split(total_bytes, dram_bytes, self._beta)

    def set_skew(self, skew: float) -> None:
        """Correct for selections that are this uneven from the next observation on."""
        self._skew = skew

    def observe(self, **paths: Measured) -> bool:
        """Learn one step's measurements by rate name (``host_score``, ``drive_score``, ``host_link``, ``drive_link``).

        Paths that moved nothing are left out or have no bytes. Returns whether beta changed.
        """
        current = vars(self._rates).copy()
        for name, measured in paths.items():
            if name not in current:
                raise ValueError(f"there is no path {name!r}; there are: {', '.join(current)}")
            if measured.nbytes > 0 and measured.seconds > 0:
                paces = self._paces[name]
                paces.append(measured.seconds / measured.nbytes)
                current[name] = 1 / statistics.median(paces)
        self._rates = Rates(**current)
        wanted = beta(self._rates, self._alpha, self._pipeline, self._skew)
        if abs(wanted / self._beta - 1) <= HYSTERESIS:
            return False
        self._beta = wanted
        return True
