"""Least recently used: a block's value is the step that last selected it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.policy.base import register
from nearkv.policy.table import BlockTable


@register("lru")
class Recency:
    """Keep what was selected last; among blocks of one step, keep those of higher priority."""

    def __init__(self) -> None:
        self._last = BlockTable(np.int64)
        self._step: dict[int, int] = {}

    def observe(self, layer: int, selected: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Stamp the selected blocks with this step (high bits) and their priority (low bits)."""
        step = self._step[layer] = self._step.get(layer, 0) + 1
        self._last.put(layer, selected, priority + np.int64(step << 32))

    def values(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The stamp of each block; 0 for one never selected."""
        return np.where(blocks >= 0, self._last.at(layer, blocks), -1)

    def forget(self, layer: int, stream: int) -> None:
        """Forget the stamps of one stream."""
        self._last.forget(layer, stream)
