"""The SmartSSD article's hit-rate table: decaying counters per block, the highest rates stay hot.

Two uint16 per block of 32 tokens, 1/8 byte per token (the article's table takes 2 bytes per token).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.policy.base import register
from nearkv.policy.table import BlockTable

FAST_SHIFT, SLOW_SHIFT = 1, 5
"""The two rates of a block lose 1/2 and 1/32 of themselves per step: about the last 4 and the last 64 steps count. A
small pool is used best by the first, a large one by the second; their sum serves both (SmolLM2, Gemma)."""

FULL = 2**16 - 1
"""A rate's range. A selection adds the share of it that a step decays by: a block that is always selected saturates."""

HYSTERESIS = (FULL >> FAST_SHIFT) // 3
"""How far a newcomer's rate must exceed a resident's: without it, blocks of like rate take turns. Measured on SmolLM2:
a tenth fewer promotions for 0 to 0.1 points of hit rate; more of it costs more than it saves."""


@register("hit_rate")
class HitRate:
    """Rates with decay. (The article's pinned newest blocks are ``pin_newest.py``, for any policy.)

    A selection moves the fast rate by half of its range at once, so a cold block whose rate jumps is promoted in
    the step of the jump; the pool demotes as much as it promotes, because its size does not change.
    """

    def __init__(self, hysteresis: int = HYSTERESIS) -> None:
        if hysteresis < 0:
            raise ValueError("the hysteresis cannot be negative")
        self._hysteresis = hysteresis
        self._rates = [(shift, BlockTable(np.uint16)) for shift in (FAST_SHIFT, SLOW_SHIFT)]
        self._resident = BlockTable(np.bool_)

    def observe(self, layer: int, selected: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Decay every rate of the layer, then count the selection."""
        for shift, table in self._rates:
            rate = table.of(layer, selected)
            rate -= rate >> shift
            table.put(layer, selected, table.at(layer, selected) + (FULL >> shift))

    def values(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The sum of the rates, with the hysteresis added for residents."""
        value = np.sum([table.at(layer, blocks) for _, table in self._rates], axis=0, dtype=np.int64)
        value += self._hysteresis * self._resident.at(layer, blocks).astype(np.int64)
        return np.where(blocks >= 0, value, -1)

    def placed(self, layer: int, resident: npt.NDArray[np.int32]) -> None:
        """Remember who is hot, for the hysteresis."""
        self._resident.of(layer, resident)[:] = False
        self._resident.put(layer, resident, True)

    def forget(self, layer: int, stream: int) -> None:
        """Forget one stream."""
        for _, table in self._rates:
            table.forget(layer, stream)
        self._resident.forget(layer, stream)

    @property
    def table_bytes(self) -> int:
        """Bytes of the rates."""
        return sum(table.nbytes for _, table in self._rates)
