"""Least recently used: a block's value is the step that last selected it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.policy.base import register


@register("lru")
class Recency:
    """Keep what was selected last; among blocks of one step, keep those of higher priority."""

    def __init__(self) -> None:
        self._last: dict[int, npt.NDArray[np.int64]] = {}
        self._step: dict[int, int] = {}

    def observe(self, layer: int, selected: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Stamp the selected blocks with this step (high bits) and their priority (low bits)."""
        step = self._step[layer] = self._step.get(layer, 0) + 1
        last = self._grown(layer, selected)
        streams, columns = np.nonzero(selected >= 0)
        last[streams, selected[streams, columns]] = (step << 32) | priority[streams, columns].astype(np.int64)

    def values(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The stamp of each block; 0 for one never selected."""
        last = self._grown(layer, blocks)
        return np.where(blocks >= 0, np.take_along_axis(last, np.maximum(blocks, 0), axis=1), -1)

    def forget(self, layer: int, stream: int) -> None:
        """Forget the stamps of one stream."""
        if layer in self._last:
            self._last[layer][stream] = 0

    def _grown(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The stamps [S, n] of ``layer``, grown to hold every index in ``blocks``."""
        last = self._last.get(layer)
        need = int(blocks.max(initial=0)) + 1
        if last is None or last.shape[1] < need:
            grown = np.zeros((blocks.shape[0], max(need, 64, 0 if last is None else 2 * last.shape[1])), np.int64)
            if last is not None:
                grown[:, : last.shape[1]] = last
            self._last[layer] = last = grown
        return last
