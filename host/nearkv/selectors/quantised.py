"""What the drive computes: the score contract's log-mass from INT8 or INT4 keys, by the golden model."""

from __future__ import annotations

import math

import numpy as np

from nearkv.contract import encode_query, encode_segment
from nearkv.contract.kernel import block_log_mass, token_scores, unpack_blocks
from nearkv.selectors.base import FloatArray, Selector, register
from nearkv_drivers.wire import EMPTY, FRACTION_BITS, MAX_GROUP


class Quantised:
    """All keys as one segment of score blocks; ``nbytes`` counts headers too, as the drive reads them."""

    def __init__(self, keys: FloatArray, bits: int) -> None:
        self._segment = encode_segment(keys, bits)
        self._m, self._values, _ = unpack_blocks(self._segment.blocks, bits, self._segment.width)
        self.nbytes = int(self._segment.blocks.nbytes)

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """The contract's log-mass [N, blocks], from log2 with 8 fraction bits to natural units."""
        parts = []
        for start in range(0, len(queries), MAX_GROUP):
            query = encode_query(queries[start : start + MAX_GROUP], self._segment, scale)
            x = token_scores(query.q, self._values, self._m, query.c[0], query.r[0], query.b[0])
            parts.append(block_log_mass(x, self._m != 0))
        log_mass = np.concatenate(parts).astype(np.float32) * np.float32(math.log(2) / 2**FRACTION_BITS)
        return np.where(np.concatenate(parts) == EMPTY, np.float32(-np.inf), log_mass)


@register("int8")
def int8(keys: FloatArray) -> Selector:
    """The drive's scorer at 8 bits."""
    return Quantised(keys, 8)


@register("int4")
def int4(keys: FloatArray) -> Selector:
    """The drive's scorer at 4 bits."""
    return Quantised(keys, 4)
