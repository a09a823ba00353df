"""The mean key of a block (the landmark of ShadowKV, Sun et al., 2024, without its outlier blocks)."""

from __future__ import annotations

import math

import numpy as np

from nearkv.selectors.base import FloatArray, as_blocks, register
from nearkv_drivers.wire import BLOCK_TOKENS


@register("mean_key")
class MeanKey:
    """One vector per block; by Jensen's inequality the estimate is a lower bound on the log-mass."""

    def __init__(self, keys: FloatArray) -> None:
        self.mean = as_blocks(keys).mean(axis=1)
        self.nbytes = 2 * self.mean.size

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """Never above the exact log-mass."""
        scores = (queries * np.float32(scale)) @ self.mean.T
        return np.asarray(scores + np.float32(math.log(BLOCK_TOKENS)), np.float32)
