"""KVDrive's sliding window with lookahead eviction: the last w selections stay, lowest current attention goes first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.policy.base import register
from nearkv.policy.table import BlockTable

WINDOW = 16
"""Steps whose selections count as the working set."""

_NEVER = -(2**40)


@register("lookahead")
class Lookahead:
    """Blocks selected within the window stay before all others; within each class, current attention decides.

    Scores change little from one step to the next, so this step's attention foretells the next selection. A block
    that this step's ranking does not report stands below those that it does, by how long ago it was reported.
    """

    def __init__(self, window: int = WINDOW) -> None:
        if window < 1:
            raise ValueError(f"the window must hold at least one step, not {window}")
        self._window = window
        self._selected, self._seen = BlockTable(np.int64, _NEVER), BlockTable(np.int64)
        self._priority = BlockTable(np.uint32)
        self._step: dict[int, int] = {}

    def rank(self, layer: int, ranked: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Learn the current attention of blocks that may not have been selected."""
        self._report(layer, ranked, priority, self._step.get(layer, 0) + 1)

    def observe(self, layer: int, selected: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Move the window on by one selection."""
        step = self._step[layer] = self._step.get(layer, 0) + 1
        self._selected.put(layer, selected, step)
        self._report(layer, selected, priority, step)

    def values(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Within the window (bit 62), reported this step (bit 61), then its priority or the step of the report."""
        step = self._step.get(layer, 0)
        seen = self._seen.at(layer, blocks)
        inside = step - self._selected.at(layer, blocks) < self._window
        current = np.where(seen == step, (1 << 61) | self._priority.at(layer, blocks).astype(np.int64), seen)
        return np.where(blocks >= 0, np.where(inside, 1 << 62, 0) | current, -1)

    def forget(self, layer: int, stream: int) -> None:
        """Forget one stream."""
        for table in (self._selected, self._seen, self._priority):
            table.forget(layer, stream)

    def _report(self, layer: int, blocks: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32], step: int) -> None:
        self._seen.put(layer, blocks, step)
        self._priority.put(layer, blocks, priority)
