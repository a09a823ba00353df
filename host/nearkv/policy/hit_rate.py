"""The SmartSSD article's hit-rate table: a decaying counter per block, the highest rates stay hot.

One uint16 per block of 32 tokens, 1/16 byte per token (the article's table takes 2 bytes per token).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.policy.base import register
from nearkv.policy.table import BlockTable

DECAY_SHIFT = 3
"""A rate loses 1/8 of itself per step: about the last 16 steps count."""

HIT = (2**16 - 1) >> DECAY_SHIFT
"""What a selection adds: a block that is always selected saturates at 65,535, where decay and hit cancel."""

HYSTERESIS = HIT // 4
"""How far a newcomer's rate must exceed a resident's: without it, blocks of like rate take turns. Measured on SmolLM2:
a sixth fewer promotions for 0.1 points of hit rate; more of it costs more than it saves."""


@register("hit_rate")
class HitRate:
    """Rates with decay; ``pin_newest`` blocks of the highest index stay whatever their rate (the article's alpha).

    A selection moves a rate by an eighth of its range at once, so a cold block whose rate jumps is promoted in the
    step of the jump; the pool demotes as much as it promotes, because its size does not change.
    """

    def __init__(self, pin_newest: int = 0, hysteresis: int = HYSTERESIS) -> None:
        if pin_newest < 0 or hysteresis < 0:
            raise ValueError("pinned blocks and hysteresis cannot be negative")
        self._pin, self._hysteresis = pin_newest, hysteresis
        self._rate, self._resident = BlockTable(np.uint16), BlockTable(np.bool_)
        self._newest: dict[int, npt.NDArray[np.int32]] = {}

    def observe(self, layer: int, selected: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Decay every rate of the layer, then count the selection."""
        rate = self._rate.of(layer, selected)
        rate -= rate >> DECAY_SHIFT
        self._rate.put(layer, selected, self._rate.at(layer, selected) + HIT)

    def values(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The rate, with the hysteresis added for residents; pinned blocks stand above all."""
        newest = np.maximum(self._newest.get(layer, np.int32(-1)), blocks.max(axis=1, initial=-1))
        self._newest[layer] = newest.astype(np.int32)
        value = self._rate.at(layer, blocks).astype(np.int64)
        value += self._hysteresis * self._resident.at(layer, blocks).astype(np.int64)
        value[blocks > (newest[:, None] - self._pin)] += 1 << 32
        return np.where(blocks >= 0, value, -1)

    def placed(self, layer: int, resident: npt.NDArray[np.int32]) -> None:
        """Remember who is hot, for the hysteresis."""
        self._resident.of(layer, resident)[:] = False
        self._resident.put(layer, resident, True)

    def forget(self, layer: int, stream: int) -> None:
        """Forget one stream."""
        self._rate.forget(layer, stream)
        self._resident.forget(layer, stream)
        if layer in self._newest:
            self._newest[layer][stream] = -1

    @property
    def table_bytes(self) -> int:
        """Bytes of the rates."""
        return self._rate.nbytes
