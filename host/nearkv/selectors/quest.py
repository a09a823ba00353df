"""Quest (Tang et al., 2024): per-channel minimum and maximum of a block bound its highest score from above."""

from __future__ import annotations

import numpy as np

from nearkv.selectors.base import FloatArray
from nearkv.selectors.linear import LinearSummary
from nearkv.selectors.summaries import summarises


def extremes(keys: FloatArray) -> FloatArray:
    """Per-channel minima, then maxima, of blocks [n, 32, d]: [n, 2 d]."""
    return np.concatenate([keys.min(axis=1), keys.max(axis=1)], axis=1)


def sides(queries: FloatArray) -> FloatArray:
    """What meets the minima, the negative part of ``queries`` [..., d], then what meets the maxima: [..., 2 d]."""
    return np.concatenate([np.minimum(queries, 0), np.maximum(queries, 0)], axis=-1)


@summarises("quest")
class Quest(LinearSummary):
    """Two vectors per block. The bound on the maximum plus log 32 is never below the log-mass, and ranks alike."""

    vectors = 2
    rows = staticmethod(extremes)
    features = staticmethod(sides)
