"""Parts of a pool: in proportion, within limits, in whole blocks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_HALVINGS = 50


def largest_remainders(share: npt.NDArray[np.float64], total: int) -> npt.NDArray[np.int64]:
    """``share`` [N], which sums up to ``total`` but for rounding errors, in whole blocks: int64 [N] of that sum.

    Those with the largest remainders are rounded up (Hamilton's method), ties to the earlier.
    """
    whole = np.floor(share + 1e-6).astype(np.int64)  # 3 blocks less a rounding error are 3 blocks
    order = np.argsort(whole - share, kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole


def filled(weight: npt.NDArray[np.float64], room: npt.NDArray[np.float64], total: float) -> npt.NDArray[np.float64]:
    """``total`` in proportion to ``weight`` [N], all above 0, but no more than ``room`` [N] each: float64 [N].

    ``total`` is at most the sum of ``room``.
    """
    low, high = 0.0, float((room / weight).max())
    for _ in range(_HALVINGS):
        each = (low + high) / 2
        low, high = (each, high) if np.minimum(weight * each, room).sum() < total else (low, each)
    return np.minimum(weight * high, room)
