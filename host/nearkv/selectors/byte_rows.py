"""Linear summaries in one byte per value: small enough to stay in DRAM for every block of a long context."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.selectors.base import FloatArray
from nearkv.selectors.linear import LOG_TOKENS, LinearSummary
from nearkv.selectors.summaries import Estimate, Field, IntArray, per_block, per_stream
from nearkv_drivers import summary

RANGE_MARGIN = 1 / 8
"""Share by which a range is widened beyond a new extreme, so that it seldom has to be widened again."""


class ByteSummary(LinearSummary):
    """Rows in 255 steps of each value's range over the stream; two float32 per value and stream say which.

    A range grows where new blocks leave it; the codes of earlier blocks are then written anew.
    """

    @staticmethod
    def rounded(codes: FloatArray) -> FloatArray:
        """Codes [n, vectors · d] as integers."""
        return np.rint(codes)

    @classmethod
    def fields(cls, head_dim: int, values: npt.DTypeLike) -> dict[str, Field]:
        """See SummaryTable; what is kept has its own precision."""
        width = cls.vectors * head_dim
        ranges = Field(per_stream, width, np.float32)
        return {"rows": Field(per_block, width, np.uint8), "offset": ranges, "step": ranges}

    def _keep(self, stream: int, first: int, keys: FloatArray) -> None:
        rows = self.rows(keys)
        self._cover(stream, first, rows.min(axis=0), rows.max(axis=0))
        self._arrays["rows"][stream, first : first + len(rows)] = self._codes(stream, rows)

    def _cover(self, stream: int, have: int, least: FloatArray, most: FloatArray) -> None:
        """Let the stream's ranges hold ``least`` and ``most`` [vectors · d]; its first ``have`` rows follow."""
        offset, step = self._arrays["offset"][stream, 0], self._arrays["step"][stream, 0]
        old_least, old_step = offset.copy(), step.copy()
        if have:
            old_most = old_least + 255 * old_step
            margin = RANGE_MARGIN * (old_most - old_least)
            least = np.where(least < old_least, np.minimum(least, old_least - margin), old_least)
            most = np.where(most > old_most, np.maximum(most, old_most + margin), old_most)
        offset[:] = least
        step[:] = np.maximum((most - least) / 255, np.finfo(np.float32).tiny)
        if have and ((offset != old_least) | (step != old_step)).any():
            rows = self._arrays["rows"][stream, :have]
            rows[:] = self._codes(stream, rows.astype(np.float32) * old_step + old_least)

    def _codes(self, stream: int, rows: FloatArray) -> npt.NDArray[np.uint8]:
        offset, step = self._arrays["offset"][stream], self._arrays["step"][stream]
        return np.asarray(np.clip(self.rounded((rows - offset) / step), 0, 255), np.uint8)

    def _estimate(self, streams: IntArray, counts: IntArray, queries: FloatArray) -> Estimate:
        rows, offset, step = (self._arrays[name] for name in ("rows", "offset", "step"))
        features = self.features(queries)
        base = np.matmul(features, offset[streams, 0, :, None]) + LOG_TOKENS
        products = summary.products(rows, streams, counts, features * step[streams])
        read = int(counts.sum()) * rows.shape[2] + len(streams) * (offset[0].nbytes + step[0].nbytes)
        return Estimate(products + base, read)
