"""InfLLM (Xiao et al., 2024): a block is represented by a few of its own keys.

The paper takes the tokens that the following queries attended to most, and adds up their scores. A stream's queries
are not kept here, so the keys farthest from their block's mean stand in for those, and the scores are reduced by
log-sum-exp: on SmolLM2 that holds more mass than the sum, and than keys of large norm or near the local mean.
"""

from __future__ import annotations

import math

import numpy as np

from nearkv.selectors.base import FloatArray, as_blocks, register
from nearkv_drivers.wire import BLOCK_TOKENS

REPRESENTATIVES = 4
"""Keys kept per block (the paper's number)."""


@register("infllm")
class InfLLM:
    """Four keys per block; the estimate is their log-mass, as if the others scored like them."""

    def __init__(self, keys: FloatArray) -> None:
        blocks = as_blocks(keys)
        distance = np.square(blocks - blocks.mean(axis=1, keepdims=True)).sum(axis=2)
        index = np.sort(np.argsort(-distance, axis=1, kind="stable")[:, :REPRESENTATIVES], axis=1)
        self._kept = np.take_along_axis(blocks, index[:, :, None], axis=1).reshape(-1, keys.shape[1])
        self.nbytes = 2 * self._kept.size

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """log-mean-exp of the representatives' scores, plus log 32."""
        scores = ((queries * np.float32(scale)) @ self._kept.T).reshape(len(queries), -1, REPRESENTATIVES)
        peak = scores.max(axis=2)
        mean = np.exp(scores - peak[:, :, None]).mean(axis=2)
        return np.asarray(peak + np.log(mean) + np.float32(math.log(BLOCK_TOKENS)), np.float32)
