"""Summaries whose estimate is the product of a query's features and a row that is kept of each block."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from nearkv.selectors.base import FloatArray
from nearkv.selectors.summaries import Estimate, Field, IntArray, SummaryTable, per_block
from nearkv_drivers import summary
from nearkv_drivers.wire import BLOCK_TOKENS

LOG_TOKENS = np.float32(math.log(BLOCK_TOKENS))
"""What 32 equal scores add to one."""


class LinearSummary(SummaryTable):
    """A row of ``vectors`` · d values per block, whose product with features, plus log 32, estimates the log-mass."""

    vectors: ClassVar[int]

    @staticmethod
    @abstractmethod
    def rows(keys: FloatArray) -> FloatArray:
        """What is kept of blocks [n, 32, d]: [n, vectors · d]."""

    @staticmethod
    @abstractmethod
    def features(queries: FloatArray) -> FloatArray:
        """What scaled queries [..., d] multiply rows with: [..., vectors · d]."""

    @classmethod
    def fields(cls, head_dim: int, values: npt.DTypeLike) -> dict[str, Field]:
        """See SummaryTable."""
        return {"rows": Field(per_block, cls.vectors * head_dim, values)}

    def _keep(self, stream: int, first: int, keys: FloatArray) -> None:
        self._arrays["rows"][stream, first : first + len(keys)] = self.rows(keys)

    def _estimate(self, streams: IntArray, counts: IntArray, queries: FloatArray) -> Estimate:
        rows = self._arrays["rows"]
        products = summary.products(rows, streams, counts, self.features(queries))
        return Estimate(products + LOG_TOKENS, int(counts.sum()) * rows.shape[2] * rows.itemsize)
