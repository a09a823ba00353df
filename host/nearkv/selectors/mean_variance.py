"""Mean key plus half the variance: exact where a block's scores are Gaussian with independent channels."""

from __future__ import annotations

import numpy as np

from nearkv.selectors.base import FloatArray
from nearkv.selectors.linear import LinearSummary
from nearkv.selectors.summaries import summarises


@summarises("mean_variance")
class MeanVariance(LinearSummary):
    """Two vectors per block: log E[exp(s)] = mean + variance / 2 of a Gaussian score s."""

    vectors = 2

    @staticmethod
    def rows(keys: FloatArray) -> FloatArray:
        """The mean, and the per-channel variance of the keys around it."""
        return np.concatenate([keys.mean(axis=1), keys.var(axis=1)], axis=1)

    @staticmethod
    def features(queries: FloatArray) -> FloatArray:
        """The queries, and half their squares."""
        return np.concatenate([queries, np.square(queries) / 2], axis=-1)
