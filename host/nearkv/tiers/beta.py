"""Beta: hot bytes that the host scores per cold byte that the drive scores, so that both finish together.

With Mc and Ms the bytes scored by host and drive, fc and fs their scoring rates, Bc and Bs the rates at which the
selected share alpha moves on from DRAM and from the drive (all in bytes per second of the same bytes):

    serial:      Mc/fc + alpha·Mc/Bc = Ms/fs + alpha·Ms/Bs
    overlapped:  max(Mc/fc, alpha·Mc/Bc) = max(Ms/fs, alpha·Ms/Bs)

Where the selection waits for both sides' scores, as in :mod:`nearkv.cache`, what is transferred afterwards is the same
however the scoring was divided. There alpha is 0, the links drop out, and the drive's rate includes what it stages.

Beta = Mc/Ms follows from each. It balances time and plans no capacity: :func:`split` clamps it to the DRAM budget
and says which limit bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

SKEW_GAIN = 0.15
"""The SmartSSD article's correction: beta grows by 15 % of the skew of the selections."""


class Pipeline(Enum):
    """How a side's scoring and transfer relate in time."""

    SERIAL = "serial"
    OVERLAPPED = "overlapped"


class Limit(Enum):
    """What bound the hot share."""

    BALANCE = "balance: host and drive finish together"
    DRAM = "DRAM budget: fewer bytes may be hot than the balance asks for"
    OVERHEAD = "overhead: for what the balance would give the host, starting it takes too long"


@dataclass(frozen=True)
class Rates:
    """Measured bytes per second: scoring on host (fc) and drive (fs), transfer from DRAM (Bc) and drive (Bs).

    A link that nothing has moved over yet is None.
    """

    host_score: float
    drive_score: float
    host_link: float | None = None
    drive_link: float | None = None

    def __post_init__(self) -> None:
        for name, rate in vars(self).items():
            if rate is not None and not (rate > 0 and math.isfinite(rate)):
                raise ValueError(f"the rate {name} must be positive and finite, not {rate}: measure it first")

    def host_seconds(self, nbytes: float, alpha: float, pipeline: Pipeline) -> float:
        """Time of the host's side for ``nbytes`` scored bytes."""
        return _seconds(nbytes, alpha, self.host_score, self.host_link, pipeline)

    def drive_seconds(self, nbytes: float, alpha: float, pipeline: Pipeline) -> float:
        """Time of the drive's side for ``nbytes`` scored bytes."""
        return _seconds(nbytes, alpha, self.drive_score, self.drive_link, pipeline)


@dataclass(frozen=True)
class Split:
    """Bytes to score on each side, the beta they amount to, the balanced one, and what bound them."""

    host_bytes: int
    drive_bytes: int
    beta: float
    balanced_beta: float
    limit: Limit


def beta(rates: Rates, alpha: float, pipeline: Pipeline, skew: float = 0.0) -> float:
    """Mc/Ms for which both sides take equally long.

    ``alpha`` (0..1) is the share of scored bytes that is transferred. ``skew`` (>= 0; 0 turns the correction off) is
    how unevenly the selections spread over the blocks, see :func:`selection_skew`: hot blocks that are selected more
    than their share are worth more host work.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is a share from 0 to 1, not {alpha}")
    if not (skew >= 0 and math.isfinite(skew)):
        raise ValueError(f"the skew cannot be {skew}")
    per_drive_byte = rates.drive_seconds(1.0, alpha, pipeline)
    return per_drive_byte / rates.host_seconds(1.0, alpha, pipeline) * (1 + SKEW_GAIN * skew)


def split(total_bytes: int, dram_bytes: int, balanced: float) -> Split:
    """Divide ``total_bytes`` of score blocks by ``balanced`` beta, with at most ``dram_bytes`` of them hot."""
    if total_bytes < 0 or dram_bytes < 0 or not balanced > 0:
        raise ValueError(f"cannot split {total_bytes} bytes with {dram_bytes} bytes of DRAM at beta {balanced}")
    wanted = round(total_bytes * balanced / (1 + balanced))
    host = min(wanted, dram_bytes)
    drive = total_bytes - host
    limit = Limit.DRAM if host < wanted else Limit.BALANCE
    return Split(host, drive, host / drive if drive else math.inf, balanced, limit)


def selection_skew(counts: npt.ArrayLike) -> float:
    """Gini coefficient (0 even, 1 all in one) of how often each block was selected."""
    ordered = np.sort(np.asarray(counts, np.float64), axis=None)
    n, total = ordered.size, ordered.sum()
    if not total:
        return 0.0
    return float(((2 * np.arange(n) - n + 1) * ordered).sum() / (n * total))


def _seconds(nbytes: float, alpha: float, score: float, link: float | None, pipeline: Pipeline) -> float:
    if alpha and link is None:
        raise ValueError(f"a share of {alpha} is transferred over a link whose rate is not measured")
    scoring, transfer = nbytes / score, alpha * nbytes / link if link else 0.0
    return max(scoring, transfer) if pipeline is Pipeline.OVERLAPPED else scoring + transfer
