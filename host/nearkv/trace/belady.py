"""Belady's optimum: keep the blocks whose next use is nearest. It reads the future, so it is no live policy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.trace.format import Trace


class Belady:
    """The bound that no policy can beat at the same pool size per stream; it may also leave a newcomer out.

    Takes the streams of all layers as one layer, in the order of a trace's [L, S]. ``first_step`` is the step of the
    trace that it will observe first.
    """

    def __init__(self, trace: Trace, first_step: int) -> None:
        chosen = trace.chosen.reshape(len(trace.tokens), -1, trace.info.selected_blocks)
        blocks = int(trace.ranked.max(initial=0)) + 1
        self._step = first_step
        self._next = next_uses(chosen, blocks)

    def observe(self, layer: int, selected: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Only time passes."""
        self._step += 1

    def values(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The sooner a block is needed again after this step, the higher."""
        later = self._next[min(self._step, len(self._next) - 1)]
        soon = np.take_along_axis(later, np.maximum(blocks, 0), axis=1).astype(np.int64)
        return np.where(blocks >= 0, len(self._next) - soon, -1)

    def forget(self, layer: int, stream: int) -> None:
        """A trace's sequences end together: nothing to forget."""


def next_uses(chosen: npt.NDArray[np.int32], blocks: int) -> npt.NDArray[np.int32]:
    """First step >= t that selects a block, T if none does: int32 [T + 1, N, blocks] for ``chosen`` [T, N, k]."""
    steps, rows = chosen.shape[:2]
    table = np.full((steps + 1, rows, blocks), steps, np.int32)
    for t in range(steps - 1, -1, -1):
        table[t] = table[t + 1]
        row, column = np.nonzero(chosen[t] >= 0)
        table[t, row, chosen[t, row, column]] = t
    return table
