"""KVDrive's sliding window with lookahead eviction: the last w selections stay, lowest current attention goes first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.policy.base import register
from nearkv.policy.table import BlockTable

WINDOW = 32
"""Steps whose selections count as the working set."""

FAST, SLOW = 0.4, 0.9
"""What a step weighs against the next one in the two running means that make up the current attention. One step's
attention alone is noisy: on SmolLM2 the means save a twelfth of the misses that it leaves."""

_NEVER = -(2**40)
_ONE = 2.0**20
_FORGOTTEN = 255
"""Steps after which a mean counts as forgotten: a slow one has kept 2e-12 of itself."""


@register("lookahead")
class Lookahead:
    """Blocks selected within the window stay before all others; within each class, current attention decides.

    Attention changes little from one step to the next, so the current one foretells the next selection. It is the sum
    of a fast and a slow running mean of the square root of a block's share (the root keeps a single peak from
    outweighing many steps); a step that does not report a block counts as a share of nothing.
    """

    def __init__(self, window: int = WINDOW) -> None:
        if window < 1:
            raise ValueError(f"the window must hold at least one step, not {window}")
        self._window = window
        self._selected, self._seen = BlockTable(np.int64, _NEVER), BlockTable(np.int64)
        self._means = [(_Decay(decay), BlockTable(np.float32)) for decay in (FAST, SLOW)]
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
        """Within the window (bit 62), then the current attention."""
        step = self._step.get(layer, 0)
        inside = step - self._selected.at(layer, blocks) < self._window
        age = step - self._seen.at(layer, blocks)
        current = np.zeros(blocks.shape, np.float32)
        for decay, mean in self._means:
            current += mean.at(layer, blocks) * decay.over(age)
        return np.where(blocks >= 0, np.where(inside, 1 << 62, 0) + (current * _ONE).astype(np.int64), -1)

    def forget(self, layer: int, stream: int) -> None:
        """Forget one stream."""
        for table in (self._selected, self._seen, *(mean for _, mean in self._means)):
            table.forget(layer, stream)

    def _report(self, layer: int, blocks: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32], step: int) -> None:
        """Move the means of ``blocks`` on to ``step``, once each: a selected block was mostly ranked, too."""
        age = step - self._seen.at(layer, blocks)
        share = np.where(age > 0, np.sqrt(priority.astype(np.float32)), np.float32(0))
        for decay, mean in self._means:
            mean.put(layer, blocks, mean.at(layer, blocks) * decay.over(age) + decay.rest * share)
        self._seen.put(layer, blocks, step)


class _Decay:
    """Powers of one decay, looked up: a policy runs on every layer of every step."""

    def __init__(self, decay: float) -> None:
        self.rest = np.float32(1 - decay)
        self._powers = (decay ** np.arange(_FORGOTTEN + 1)).astype(np.float32)
        self._powers[-1] = 0

    def over(self, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """What ``steps`` leave of a mean."""
        return np.asarray(self._powers.take(np.minimum(steps, _FORGOTTEN)), np.float32)
