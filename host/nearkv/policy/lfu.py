"""Least frequently used: a block's value is how often it was ever selected. A baseline, it never forgets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.policy.base import register
from nearkv.policy.table import BlockTable


@register("lfu")
class LeastFrequentlyUsed:
    """Counts selections; among equals, the block selected last stays."""

    def __init__(self) -> None:
        self._count, self._last = BlockTable(np.int64), BlockTable(np.int64)
        self._step: dict[int, int] = {}

    def observe(self, layer: int, selected: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Count one more selection of every selected block."""
        self._step[layer] = self._step.get(layer, 0) + 1
        self._count.put(layer, selected, self._count.at(layer, selected) + 1)
        self._last.put(layer, selected, self._step[layer])

    def values(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The count (high bits), then the step of the last selection."""
        return np.where(blocks >= 0, (self._count.at(layer, blocks) << 32) | self._last.at(layer, blocks), -1)

    def forget(self, layer: int, stream: int) -> None:
        """Forget the counts of one stream."""
        self._count.forget(layer, stream)
        self._last.forget(layer, stream)
