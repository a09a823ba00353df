"""Recency: a later block is worth more than an earlier one, whatever the query. What a sliding window does."""

from __future__ import annotations

import numpy as np

from nearkv.selectors.base import FloatArray, register
from nearkv_drivers.wire import BLOCK_TOKENS


@register("recent")
class Recent:
    """Needs no state at all."""

    def __init__(self, keys: FloatArray) -> None:
        self._blocks = len(keys) // BLOCK_TOKENS
        self.nbytes = 0

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """A slope from 0 to 1 over the blocks: a softmax over it keeps the order without underflow."""
        slope = np.arange(self._blocks, dtype=np.float32) / np.float32(max(self._blocks - 1, 1))
        return np.tile(slope, (len(queries), 1))
