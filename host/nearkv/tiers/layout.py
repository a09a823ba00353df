"""SSD layout: blocks that are selected together lie together, and neighbouring reads become one.

Every (layer, KV head) has an extent of its own; within it the order of blocks is free until they are written. Blocks
in order of position are read in long runs already, because attention favours neighbours; KVDrive's semantic
continuity goes further and orders them by which selections they share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReadCost:
    """Reads and blocks of a set of steps: ``used`` blocks were wanted, ``read`` blocks were read in ``reads`` reads."""

    steps: int
    reads: int
    used: int
    read: int

    @property
    def reads_per_step(self) -> float:
        """Reads per step and stream."""
        return self.reads / self.steps

    @property
    def read_amplification(self) -> float:
        """Bytes read per byte used; 1 without gaps bridged."""
        return self.read / self.used if self.used else 1.0


def coalesce(places: Ints, bridge: int = 0) -> list[tuple[int, int]]:
    """Reads (first place, blocks) that cover ``places``: neighbours, and gaps of up to ``bridge`` unused blocks, merge.

    ``places`` are distinct positions within one extent, in any order.
    """
    if not len(places):
        return []
    ordered = np.sort(places)
    breaks = np.flatnonzero(np.diff(ordered) > bridge + 1)
    first = ordered[np.concatenate([[0], breaks + 1])]
    last = ordered[np.concatenate([breaks, [len(ordered) - 1]])]
    return [(int(a), int(b - a + 1)) for a, b in zip(first, last, strict=True)]


def co_selection(wanted: npt.NDArray[np.int32], blocks: int) -> Ints:
    """How often each pair of blocks was wanted in the same step: int64 [blocks, blocks] from [T, k], -1 padded."""
    member = np.zeros((len(wanted), blocks + 1), np.float32)
    np.put_along_axis(member, wanted + 1, 1, axis=1)
    member = member[:, 1:]
    return np.asarray(np.rint(member.T @ member), np.int64)


def pack_together(together: Ints) -> Ints:
    """Place of every block, int64 [blocks]: a permutation in which blocks with high ``together`` counts are close.

    Chains are joined greedily at their ends, the pair with the most common selections first (as in a nearest-fragment
    tour); among equals, the pair closest in position, so that blocks never seen together stay in order.
    """
    blocks = len(together)
    row, column = np.triu_indices(blocks, 1)
    order = np.lexsort((row, column - row, -together[row, column]))
    neighbours: list[list[int]] = [[] for _ in range(blocks)]
    chain = np.arange(blocks)
    for index in order:
        left, right = int(row[index]), int(column[index])
        if chain[left] != chain[right] and len(neighbours[left]) < 2 and len(neighbours[right]) < 2:
            neighbours[left].append(right)
            neighbours[right].append(left)
            chain[chain == chain[right]] = chain[left]
    return _walk(neighbours)


def _walk(neighbours: list[list[int]]) -> Ints:
    """Place of every block along the one chain that ``neighbours`` describe, from its end of lower index."""
    place = np.zeros(len(neighbours), np.int64)
    block = next((b for b, near in enumerate(neighbours) if len(near) < 2), 0)
    before = -1
    for position in range(len(neighbours)):
        place[block] = position
        after = [near for near in neighbours[block] if near != before]
        before, block = block, after[0] if after else -1
    return place


def read_cost(wanted: npt.NDArray[np.int32], place: Ints, bridge: int = 0) -> ReadCost:
    """What it takes to read ``wanted`` [T, k] (-1 padded) of one stream from blocks laid out at ``place``."""
    reads = used = read = 0
    for step in wanted:
        runs = coalesce(place[step[step >= 0]], bridge)
        reads += len(runs)
        used += int((step >= 0).sum())
        read += sum(length for _, length in runs)
    return ReadCost(len(wanted), reads, used, read)
