"""ShadowKV (Sun et al., 2024): the mean key as landmark, and blocks that their mean describes badly kept whole."""

from __future__ import annotations

import math

import numpy as np

from nearkv.selectors.base import FloatArray, as_blocks, exact_log_mass, register
from nearkv.selectors.mean_key import MeanKey

OUTLIER_SHARE = 1 / 64
"""Share of the blocks kept as outliers (the paper keeps 48 chunks of 8 tokens, 0.3 % of 128 K tokens)."""


@register("shadowkv")
class ShadowKV:
    """Outliers are the blocks with the least cosine between any of their keys and their mean."""

    def __init__(self, keys: FloatArray) -> None:
        self._mean = MeanKey(keys)
        blocks, mean = as_blocks(keys), self._mean.mean[:, None]
        norm = np.linalg.norm(blocks, axis=2) * np.linalg.norm(mean, axis=2)
        cosine = (blocks * mean).sum(axis=2) / np.maximum(norm, np.finfo(np.float32).tiny)
        count = math.ceil(len(blocks) * OUTLIER_SHARE)
        self._outliers = np.sort(np.argsort(cosine.min(axis=1), kind="stable")[:count])
        self._kept = blocks[self._outliers].reshape(-1, keys.shape[1])
        self.nbytes = self._mean.nbytes + 2 * self._kept.size

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """The mean key's estimate; exact for the outliers."""
        estimate = self._mean.estimate(queries, scale)
        estimate[:, self._outliers] = exact_log_mass(queries, self._kept, scale)
        return estimate
