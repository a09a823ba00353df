"""Linear summaries in one byte per value: small enough to stay in DRAM for every block of a long context."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.selectors.base import FloatArray
from nearkv.selectors.linear import LOG_TOKENS, LinearSummary
from nearkv.selectors.summaries import Estimate, Field, IntArray, per_block, per_stream
from nearkv_drivers import summary

FINEST = 2.0**-14
"""Least range that a value's 255 steps divide, as a share of its magnitude: float32 can tell them apart."""


class ByteSummary(LinearSummary):
    """Rows in 255 steps of each value's range over the stream; two float32 per value and stream say which.

    A range grows with new blocks, and the codes of earlier ones are then written anew. Steps are powers of two and
    ranges begin at multiples of them, so that rounding a code again on a coarser grid is rounding what it stood for:
    however often a range grows, rows rounded down or up stay within one step of the truth, others within two.
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
        offset, step = self._arrays["offset"][stream, 0], self._arrays["step"][stream, 0]
        codes = self._arrays["rows"][stream, : first + len(rows)]
        kept = codes[:first].astype(np.float32) * step + offset
        least = np.minimum(rows.min(axis=0), kept.min(axis=0, initial=np.inf))
        most = np.maximum(rows.max(axis=0), kept.max(axis=0, initial=-np.inf))
        old_offset, old_step = offset.copy(), step.copy()
        step[:] = np.maximum(_step(least, most), old_step)
        offset[:] = np.floor(least / step) * step
        if ((offset != old_offset) | (step != old_step)).any():
            codes[:first] = self._codes(stream, kept)
        codes[first:] = self._codes(stream, rows)

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


def _step(least: FloatArray, most: FloatArray) -> FloatArray:
    """The power of two of which 254 reach from ``least`` to ``most``: 255 from the multiple of it below ``least``."""
    finest = np.maximum(FINEST * np.maximum(np.abs(least), np.abs(most)), np.finfo(np.float32).smallest_normal * 254)
    return np.asarray(np.exp2(np.ceil(np.log2(np.maximum(most - least, finest) / 254))), np.float32)
