"""KVDrive's sliding window with lookahead eviction: the last w selections stay, lowest current attention goes first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearkv.policy.base import register
from nearkv_drivers import lookahead

WINDOW = 32
"""Steps whose selections count as the working set."""

FAST, SLOW = 0.4, 0.9
"""What a step weighs against the next one in the two running means that make up the current attention. One step's
attention alone is noisy: on SmolLM2 the means save a twelfth of the misses that it leaves."""

_NEVER = -(2**40)
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
        self._powers = np.array([decay ** np.arange(_FORGOTTEN + 1) for decay in (FAST, SLOW)], np.float32)
        self._powers[:, -1] = 0
        self._books: dict[int, _Books] = {}
        self._step: dict[int, int] = {}

    def rank(self, layer: int, ranked: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Learn the current attention of blocks that may not have been selected."""
        self._report(layer, ranked, priority, self._step.get(layer, 0) + 1, chosen=False)

    def observe(self, layer: int, selected: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Move the window on by one selection."""
        step = self._step[layer] = self._step.get(layer, 0) + 1
        self._report(layer, selected, priority, step, chosen=True)

    def values(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Within the window (bit 62), then the current attention."""
        step, books = self._step.get(layer, 0), self._of(layer, blocks)
        return lookahead.values(*books, self._powers, blocks, step, self._window)

    def forget(self, layer: int, stream: int) -> None:
        """Forget one stream."""
        if layer in self._books:
            self._books[layer].forget(stream)

    def _report(
        self, layer: int, blocks: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32], step: int, *, chosen: bool
    ) -> None:
        lookahead.report(*self._of(layer, blocks), self._powers, blocks, priority, step, chosen=chosen)

    def _of(self, layer: int, blocks: npt.NDArray[np.int32]) -> _Books:
        """The books of ``layer``, large enough for ``blocks`` [S, m]."""
        need, books = int(blocks.max(initial=0)) + 1, self._books.get(layer)
        if books is None or books.selected.shape[1] < need:
            books = self._books[layer] = _Books.grown(books, len(blocks), need)
        return books


class _Books(NamedTuple):
    """One layer's, as ``nearkv_drivers.lookahead`` takes them."""

    selected: npt.NDArray[np.int64]
    seen: npt.NDArray[np.int64]
    means: npt.NDArray[np.float32]

    @classmethod
    def grown(cls, books: _Books | None, streams: int, need: int) -> _Books:
        """``books`` (None: nothing is known) with room for ``need`` blocks and as many again."""
        have = 0 if books is None else books.selected.shape[1]
        width = max(need, 64, 2 * have)
        new = cls(
            np.full((streams, width), _NEVER, np.int64),
            np.zeros((streams, width), np.int64),
            np.zeros((2, streams, width), np.float32),
        )
        if books is not None:
            new.selected[:, :have], new.seen[:, :have], new.means[..., :have] = books
        return new

    def forget(self, stream: int) -> None:
        """Nothing is known of ``stream``."""
        self.selected[stream] = _NEVER
        self.seen[stream] = 0
        self.means[:, stream] = 0
