"""InfLLM (Xiao et al., 2024): a block is represented by a few of its own keys.

The paper takes the tokens that the following queries attended to most, and adds up their scores. A stream's queries
are not kept here, so the keys farthest from their block's mean stand in for those, and the scores are reduced by
log-sum-exp: on SmolLM2 that holds more mass than the sum, and than keys of large norm or near the local mean.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.selectors.base import FloatArray
from nearkv.selectors.linear import LOG_TOKENS
from nearkv.selectors.summaries import Estimate, Field, IntArray, SummaryTable, summarises
from nearkv_drivers import summary

REPRESENTATIVES = 4
"""Keys kept per block (the paper's number)."""


def _representatives(blocks: int) -> int:
    return REPRESENTATIVES * blocks


@summarises("infllm")
class InfLLM(SummaryTable):
    """Four keys per block; the estimate is their log-mass, as if the others scored like them."""

    @classmethod
    def fields(cls, head_dim: int, values: npt.DTypeLike) -> dict[str, Field]:
        """See SummaryTable."""
        return {"kept": Field(_representatives, head_dim, values)}

    def _keep(self, stream: int, first: int, keys: FloatArray) -> None:
        distance = np.square(keys - keys.mean(axis=1, keepdims=True)).sum(axis=2)
        index = np.sort(np.argsort(-distance, axis=1, kind="stable")[:, :REPRESENTATIVES], axis=1)
        kept = np.take_along_axis(keys, index[:, :, None], axis=1).reshape(-1, keys.shape[2])
        self._arrays["kept"][stream, first * REPRESENTATIVES :][: len(kept)] = kept

    def _estimate(self, streams: IntArray, counts: IntArray, queries: FloatArray) -> Estimate:
        """log-mean-exp of the representatives' scores, plus log 32."""
        kept = self._arrays["kept"]
        scores = summary.products(kept, streams, counts * REPRESENTATIVES, queries)
        by_place = np.ascontiguousarray(np.moveaxis(scores.reshape(*scores.shape[:2], -1, REPRESENTATIVES), 3, 0))
        peak = by_place.max(axis=0)
        mean = np.exp(by_place - peak).mean(axis=0)
        read = int(counts.sum()) * REPRESENTATIVES * kept.shape[2] * kept.itemsize
        return Estimate(np.asarray(peak + np.log(mean) + LOG_TOKENS, np.float32), read)
