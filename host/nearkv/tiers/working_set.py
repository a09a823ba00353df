"""Working sets: how many hot blocks each stream can use, from what its selections were.

A stream's working set are the blocks that its selections within a window hold (Denning, 1968). Giving every stream the
working set of one common window is what an LRU over all streams together would do. Where the pool is little larger than
one selection, that window is hardly a step long and says little; how many blocks of a selection were not in the one
before says more. So a division is the mean of both.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.policy.table import BlockTable
from nearkv.tiers.rounding import filled, largest_remainders

Floats = npt.NDArray[np.float64]

SLOWEST = 1 / 64
"""Least weight of a step in the running means: about the last hundred selections count, all of them at first."""

LEAST_CHANGE = 0.1
"""Blocks per step that every stream's selection is taken to change by: 32 queries cannot tell slower ones apart."""

PACE = 1 / 4
"""How far a new division goes from the one held to the one wanted: the last few divisions count, one is noisy."""

_NEVER, _NONE = -(2**30), 2**30
"""Step of the last selection of a block that was never selected, and least age of such a block."""


class WorkingSets:
    """Watches the selections of ``layers`` layers, and divides pools by them. 4 bytes per block and stream."""

    def __init__(self, layers: int) -> None:
        self._step = [0] * layers
        self._last = BlockTable(np.int32, _NEVER)
        self._need: list[Floats] = [np.zeros(0)] * layers
        self._change: list[Floats] = [np.zeros(0)] * layers

    def observe(self, layer: int, chosen: npt.NDArray[np.int32]) -> None:
        """One selection of the ``layer``-th layer: int32 [S, k], -1 padded, without blocks that are always in."""
        step = self._step[layer] = self._step[layer] + 1
        there = chosen >= 0
        newly = (there & (self._last.at(layer, chosen) < step - 1)).sum(axis=1).astype(np.float64)
        size = there.sum(axis=1).astype(np.float64)
        self._last.put(layer, chosen, step)
        if step == 1:
            self._need[layer], self._change[layer] = size, np.zeros(len(size))
            return
        self._need[layer] += max(1 / step, SLOWEST) * (size - self._need[layer])
        self._change[layer] += max(1 / (step - 1), SLOWEST) * (newly - self._change[layer])

    def follow(self, held: npt.NDArray[np.int64], most: int, streams: slice = slice(None)) -> npt.NDArray[np.int64]:
        """The pool blocks ``held`` by the ``streams`` of all layers, int64 [L, n], moved towards :meth:`shares`.

        Together as many as before. Parts of a block are rounded, so that a division which differs by a block from the
        one held moves nothing. As they are where there is nothing to divide: too little was observed, or every stream
        can have ``most`` blocks, all that there are.
        """
        total = int(held.sum())
        if min(self._step) < 2 or not 0 < total < most * held.size:
            return held
        wanted = self.shares(total, most, streams)
        return largest_remainders((held + PACE * (wanted - held)).reshape(-1), total).reshape(held.shape)

    def shares(self, pool_blocks: int, most: int, streams: slice = slice(None)) -> npt.NDArray[np.int64]:
        """``pool_blocks`` divided over the ``streams`` of all layers: int64 [L, n], none above ``most``.

        Together exactly ``pool_blocks``, or what all of them can use. Every stream gets room for its selection; a pool
        smaller than the selections is divided in proportion to them. Takes two observed selections or more.
        """
        need = np.minimum(np.concatenate([each[streams] for each in self._need]), most)
        total = min(pool_blocks, most * len(need))
        left = total - need.sum()
        if left <= 0:
            share = need * (total / need.sum())
        else:
            change = np.concatenate([each[streams] for each in self._change]) + LEAST_CHANGE
            beyond = np.maximum(self._common_window(total, streams) - need, 0) + LEAST_CHANGE
            share = need + (filled(change, most - need, left) + filled(beyond, most - need, left)) / 2
        return largest_remainders(share, total).reshape(len(self._step), -1)

    def _common_window(self, total: int, streams: slice) -> Floats:
        """Blocks of every stream in the longest window, of a fraction of a step, that all can have in ``total``."""
        nothing = np.empty((len(self._need[0]), 0), np.int32)
        ages = [step - self._last.of(layer, nothing)[streams, :-1] for layer, step in enumerate(self._step)]
        wide = max(age.shape[1] for age in ages)
        age = np.concatenate(
            [np.pad(each, ((0, 0), (0, wide - each.shape[1])), constant_values=_NONE) for each in ages]
        )
        place = min(total, age.size) - 1
        longest = np.partition(age, place, axis=None)[place]
        inside, edge = (age < longest).sum(axis=1), (age == longest).sum(axis=1)
        if longest >= _NONE:  # all that was ever selected fits
            return np.asarray(inside, np.float64)
        return np.asarray(inside + edge * ((total - inside.sum()) / edge.sum()), np.float64)
