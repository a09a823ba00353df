"""Quest's bounds in one byte per value: small enough to stay in DRAM for every block of a long context."""

from __future__ import annotations

import numpy as np

from nearkv.selectors.base import FloatArray, as_blocks, register
from nearkv.selectors.quest import bound


@register("quest_int8")
class QuestInt8:
    """Minimum and maximum in 255 steps of each channel's range over the stream, rounded outward: still a bound.

    1/64 of the KV's bytes at float16, whatever the head size, and two float32 per channel.
    """

    def __init__(self, keys: FloatArray) -> None:
        blocks = as_blocks(keys)
        self._offset = keys.min(axis=0)
        self._step = np.maximum((keys.max(axis=0) - self._offset) / 255, np.finfo(np.float32).tiny)
        self._low = np.clip(np.floor((blocks.min(axis=1) - self._offset) / self._step), 0, 255).astype(np.uint8)
        self._high = np.clip(np.ceil((blocks.max(axis=1) - self._offset) / self._step), 0, 255).astype(np.uint8)
        self.nbytes = self._low.nbytes + self._high.nbytes + self._offset.nbytes + self._step.nbytes

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """Never below the exact log-mass, up to rounding in float32."""
        low = self._low.astype(np.float32) * self._step + self._offset
        high = self._high.astype(np.float32) * self._step + self._offset
        return bound(queries, low, high, scale)
