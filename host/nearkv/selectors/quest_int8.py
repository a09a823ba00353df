"""Quest's bounds in one byte per value."""

from __future__ import annotations

import numpy as np

from nearkv.selectors.base import FloatArray
from nearkv.selectors.byte_rows import ByteSummary
from nearkv.selectors.quest import extremes, sides
from nearkv.selectors.summaries import summarises


@summarises("quest_int8")
class QuestInt8(ByteSummary):
    """Minimum and maximum, rounded outward: still a bound, up to rounding in float32."""

    vectors = 2
    rows = staticmethod(extremes)
    features = staticmethod(sides)

    @staticmethod
    def rounded(codes: FloatArray) -> FloatArray:
        """Minima down, maxima up."""
        low, high = np.split(codes, 2, axis=1)
        return np.concatenate([np.floor(low), np.ceil(high)], axis=1)
