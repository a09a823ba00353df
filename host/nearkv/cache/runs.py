"""From blocks of a stream to the runs of score blocks that hold them on the drive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearkv_drivers.runs import Places


@dataclass
class ScoreRun:
    """``blocks`` score blocks of segment number ``segment`` that follow each other from drive address ``offset``."""

    offset: int
    blocks: int
    segment: int


class BlockRuns(NamedTuple):
    """Runs of one request: their ``places`` on the drive, an index of the ``segments`` they belong to, and the
    ``first`` block of each."""

    places: Places
    segments: slice | list[int]
    first: list[int]

    @property
    def counts(self) -> list[int]:
        """Blocks of each run."""
        return [blocks for _, blocks in self.places]


def span_runs(runs: Sequence[ScoreRun], first: int, last: int, size: int) -> BlockRuns:
    """The runs that hold blocks ``first`` .. ``last`` (exclusive), ``size`` bytes each, of a stream's ``runs``."""
    places, segments, begins, start = [], [], [], 0
    for run in runs:
        low, high = max(first - start, 0), min(last - start, run.blocks)
        if low < high:
            places.append((run.offset + low * size, high - low))
            segments.append(run.segment)
            begins.append(start + low)
        start += run.blocks
    in_order = segments == list(range(len(segments)))
    return BlockRuns(tuple(places), slice(len(segments)) if in_order else segments, begins)


def scattered_runs(runs: Sequence[ScoreRun], blocks: npt.NDArray[np.int64], size: int) -> BlockRuns:
    """The runs that hold ``blocks`` (ascending, distinct) of a stream's ``runs``; ``size`` bytes per block."""
    if not len(blocks):
        return BlockRuns((), [], [])
    start = np.cumsum([0, *[run.blocks for run in runs]])
    owner = np.searchsorted(start, blocks, side="right") - 1
    begins = np.flatnonzero(np.concatenate([[True], (np.diff(blocks) != 1) | (np.diff(owner) != 0)]))
    owner = owner[begins]
    inside = blocks[begins] - start[owner]
    counts = np.diff(np.append(begins, len(blocks)))
    offsets = np.array([run.offset for run in runs])[owner] + inside * size
    segments = np.array([run.segment for run in runs])[owner]
    return BlockRuns(
        tuple(zip(offsets.tolist(), counts.tolist(), strict=True)), segments.tolist(), blocks[begins].tolist()
    )
