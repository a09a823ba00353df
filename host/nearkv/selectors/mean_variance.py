"""Mean key plus half the variance: exact where a block's scores are Gaussian with independent channels."""

from __future__ import annotations

import numpy as np

from nearkv.selectors.base import FloatArray, as_blocks, register
from nearkv.selectors.mean_key import MeanKey


@register("mean_variance")
class MeanVariance:
    """Two vectors per block: the mean, and the per-channel variance of the keys around it."""

    def __init__(self, keys: FloatArray) -> None:
        self._mean = MeanKey(keys)
        self._variance = as_blocks(keys).var(axis=1)
        self.nbytes = self._mean.nbytes + 2 * self._variance.size

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """log E[exp(s)] = mean + variance / 2 of a Gaussian score s, plus log 32."""
        spread = np.square(queries * np.float32(scale)) @ self._variance.T
        return np.asarray(self._mean.estimate(queries, scale) + spread / 2, np.float32)
