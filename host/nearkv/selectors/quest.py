"""Quest (Tang et al., 2024): per-channel minimum and maximum of a block bound its highest score from above."""

from __future__ import annotations

import math

import numpy as np

from nearkv.selectors.base import FloatArray, as_blocks, register
from nearkv_drivers.wire import BLOCK_TOKENS


def bound(queries: FloatArray, low: FloatArray, high: FloatArray, scale: float) -> FloatArray:
    """Upper bound on the log-mass [N, blocks] of blocks whose keys lie between ``low`` and ``high`` [blocks, d]."""
    scaled = queries * np.float32(scale)
    top = np.maximum(scaled, 0) @ high.T + np.minimum(scaled, 0) @ low.T
    return np.asarray(top + np.float32(math.log(BLOCK_TOKENS)), np.float32)


@register("quest")
class Quest:
    """Two vectors per block. The bound on the maximum plus log 32 bounds the log-mass, and ranks alike."""

    def __init__(self, keys: FloatArray) -> None:
        blocks = as_blocks(keys)
        self._low, self._high = blocks.min(axis=1), blocks.max(axis=1)
        self.nbytes = 2 * (self._low.size + self._high.size)

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """Never below the exact log-mass."""
        return bound(queries, self._low, self._high, scale)
