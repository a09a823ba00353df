"""Parts of a pool in whole blocks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def largest_remainders(share: npt.NDArray[np.float64], total: int) -> npt.NDArray[np.int64]:
    """``share`` [N], which sums up to ``total`` but for rounding errors, in whole blocks: int64 [N] of that sum.

    Those with the largest remainders are rounded up (Hamilton's method), ties to the earlier.
    """
    whole = np.floor(share + 1e-6).astype(np.int64)  # 3 blocks less a rounding error are 3 blocks
    order = np.argsort(whole - share, kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole
