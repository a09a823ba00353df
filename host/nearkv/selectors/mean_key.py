"""The mean key of a block (the landmark of ShadowKV, Sun et al., 2024, without its outlier blocks)."""

from __future__ import annotations

import numpy as np

from nearkv.selectors.base import FloatArray
from nearkv.selectors.linear import LinearSummary
from nearkv.selectors.summaries import summarises


@summarises("mean_key")
class MeanKey(LinearSummary):
    """One vector per block; by Jensen's inequality the estimate is never above the exact log-mass."""

    vectors = 1

    @staticmethod
    def rows(keys: FloatArray) -> FloatArray:
        """The mean over the tokens."""
        return np.asarray(keys.mean(axis=1), np.float32)

    @staticmethod
    def features(queries: FloatArray) -> FloatArray:
        """The queries themselves."""
        return queries
