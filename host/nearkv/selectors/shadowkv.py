"""ShadowKV (Sun et al., 2024): the mean key as landmark, and blocks that their mean describes badly kept whole."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nearkv.selectors.base import FloatArray, block_log_mass
from nearkv.selectors.mean_key import MeanKey
from nearkv.selectors.summaries import Estimate, Field, IntArray, summarises
from nearkv_drivers import summary
from nearkv_drivers.wire import BLOCK_TOKENS

OUTLIER_SHARE = 1 / 64
"""Share of the blocks kept as outliers (the paper keeps 48 chunks of 8 tokens, 0.3 % of 128 K tokens)."""


def outliers(blocks: int) -> int:
    """Outliers of a stream of ``blocks`` blocks."""
    return math.ceil(blocks * OUTLIER_SHARE)


def _outlier_tokens(blocks: int) -> int:
    return outliers(blocks) * BLOCK_TOKENS


def least_cosine(keys: FloatArray) -> FloatArray:
    """The least cosine between any key of each block [n, 32, d] and the block's mean: float32 [n]."""
    mean = keys.mean(axis=1, keepdims=True)
    norm = np.linalg.norm(keys, axis=2) * np.linalg.norm(mean, axis=2)
    cosine = (keys * mean).sum(axis=2) / np.maximum(norm, np.finfo(np.float32).tiny)
    return np.asarray(cosine.min(axis=1), np.float32)


@summarises("shadowkv")
class ShadowKV(MeanKey):
    """Outliers are the blocks with the least cosine between any of their keys and their mean.

    As a stream grows its outliers are the worst of those it had and of the new blocks: a block that was let go does not
    come back, because its keys are on the drive.
    """

    @classmethod
    def fields(cls, head_dim: int, values: npt.DTypeLike) -> dict[str, Field]:
        """See SummaryTable."""
        return super().fields(head_dim, values) | {
            "outliers": Field(_outlier_tokens, head_dim, values),
            "position": Field(outliers, 1, np.int64),
            "cosine": Field(outliers, 1, np.float32),
        }

    def _keep(self, stream: int, first: int, keys: FloatArray) -> None:
        super()._keep(stream, first, keys)
        have, places = outliers(first), outliers(first + len(keys))
        kept = self._arrays["outliers"][stream].reshape(-1, BLOCK_TOKENS, keys.shape[2])
        position, cosine = self._arrays["position"][stream, :, 0], self._arrays["cosine"][stream, :, 0]
        both = np.concatenate([cosine[:have], least_cosine(keys)])
        chosen = np.sort(np.argsort(both, kind="stable")[:places])
        old, new = chosen[chosen < have], chosen[chosen >= have] - have
        kept[:places] = np.concatenate([kept[old], keys[new].astype(kept.dtype)])
        position[:places] = np.concatenate([position[old], first + new])
        cosine[:places] = both[chosen]

    def _estimate(self, streams: IntArray, counts: IntArray, queries: FloatArray) -> Estimate:
        """The mean key's estimate; exact for the outliers."""
        estimate = super()._estimate(streams, counts, queries)
        kept = np.array([outliers(count) for count in self.count[streams].tolist()], np.int64)
        most, rows = int(kept.max()), self._arrays["outliers"]
        if not most:
            return estimate
        scores = summary.products(rows, streams, kept * BLOCK_TOKENS, queries)
        exact = block_log_mass(scores.reshape(-1, most * BLOCK_TOKENS)).reshape(*scores.shape[:2], most)
        position = self._arrays["position"][streams, :most, 0]
        asked, place = np.nonzero((np.arange(most) < kept[:, None]) & (position < counts[:, None]))
        estimate.log_mass[asked, :, position[asked, place]] = exact[asked, :, place]
        one = BLOCK_TOKENS * rows.shape[2] * rows.itemsize + position.itemsize
        return Estimate(estimate.log_mass, estimate.bytes_read + int(kept.sum()) * one)
