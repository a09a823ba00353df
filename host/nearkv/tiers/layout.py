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

POSITION, SELECTED_TOGETHER = "position", "selected_together"
LAYOUTS = (POSITION, SELECTED_TOGETHER)
"""Orders in which a stream's KV blocks may lie on the drive."""


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


NEIGHBOURS = 0.5
"""Share of a prompt's last queries by which neighbours are favoured: those queries resemble each other, so that what
they select is hardly more than one sample, and blocks that none of them selects are still best read side by side."""


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


def pack_together(together: Ints, neighbours: float = 0) -> Ints:
    """Place of every block, int64 [blocks]: a permutation in which blocks with high ``together`` counts are close.

    Neighbours in position count as selected together ``neighbours`` times beside those counted. Chains are joined
    greedily at their ends, the pair with the highest count first (as in a nearest-fragment tour); among equals, the
    pair closest in position, then the lower one. Chains follow each other in order of their lower ends, so that blocks
    never seen together stay in order. Only pairs with a count are looked at: time grows with what was selected, not
    with the square of the blocks.
    """
    blocks = len(together)
    weight = np.triu(together, 1).astype(np.float64)
    first = np.arange(blocks - 1)
    weight[first, first + 1] += neighbours
    left, right = np.nonzero(weight)
    order = np.lexsort((left, right - left, -weight[left, right]))
    linked: list[list[int]] = [[] for _ in range(blocks)]
    chain = list(range(blocks))
    for one, other in zip(left[order].tolist(), right[order].tolist(), strict=True):
        if len(linked[one]) < 2 and len(linked[other]) < 2:
            here, there = _root(chain, one), _root(chain, other)
            if here != there:
                linked[one].append(other)
                linked[other].append(one)
                chain[there] = here
    return _walk(linked)


def _root(chain: list[int], block: int) -> int:
    """The block that stands for the chain of ``block``; shortens the way there for whoever asks next."""
    while chain[block] != block:
        chain[block] = chain[chain[block]]
        block = chain[block]
    return block


def _walk(linked: list[list[int]]) -> Ints:
    """Place of every block along the chains that ``linked`` describes, each from its lower end."""
    place = np.full(len(linked), -1, np.int64)
    count = 0
    for end, near in enumerate(linked):
        block = end if len(near) < 2 and place[end] < 0 else -1
        while block >= 0:
            place[block] = count
            count += 1
            block = next((after for after in linked[block] if place[after] < 0), -1)
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
