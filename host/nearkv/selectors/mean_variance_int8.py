"""Mean key and variance in one byte per value."""

from __future__ import annotations

from nearkv.selectors.byte_rows import ByteSummary
from nearkv.selectors.mean_variance import MeanVariance
from nearkv.selectors.summaries import summarises


@summarises("mean_variance_int8")
class MeanVarianceInt8(ByteSummary):
    """The Gaussian estimate in the bytes of a mean key at float16."""

    vectors = 2
    rows = staticmethod(MeanVariance.rows)
    features = staticmethod(MeanVariance.features)
