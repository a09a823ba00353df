"""KVDrive's hierarchical index: block means in clusters; only the best clusters' members are looked at."""

from __future__ import annotations

import math

import numpy as np

from nearkv.selectors.base import FloatArray, register
from nearkv.selectors.clusters import k_means
from nearkv.selectors.mean_key import MeanKey
from nearkv_drivers.wire import BLOCK_TOKENS

OPENED = 0.5
"""Share of the clusters whose members are scored one by one."""


@register("hierarchical")
class Hierarchical:
    """√blocks clusters. ``nbytes`` is what one query reads: the centroids and, on average, the opened share."""

    def __init__(self, keys: FloatArray) -> None:
        self._mean = MeanKey(keys)
        count = math.isqrt(len(self._mean.mean))
        self._centroids, self._label = k_means(self._mean.mean, count)
        self._opened = math.ceil(count * OPENED)
        self.nbytes = 2 * self._centroids.size + int(self._mean.nbytes * self._opened / count)

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """The mean key's estimate in the opened clusters, the centroid's for members of the others."""
        score = (queries * np.float32(scale)) @ self._centroids.T
        rank = np.argsort(np.argsort(-score, axis=1, kind="stable"), axis=1)
        opened = np.take(rank < self._opened, self._label, axis=1)
        coarse = np.take(score, self._label, axis=1) + np.float32(math.log(BLOCK_TOKENS))
        return np.where(opened, self._mean.estimate(queries, scale), coarse)
