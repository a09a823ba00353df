"""From blocks of a stream to the runs of score blocks that hold them on the drive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nearkv_drivers.runs import Places, RunTable, ScatteredRuns, changes, stretches


@dataclass
class ScoreRun:
    """``blocks`` score blocks of segment number ``segment`` that follow each other from drive address ``offset``."""

    offset: int
    blocks: int
    segment: int


@dataclass(frozen=True)
class BlockRuns:
    """Runs of one request on the drive.

    ``offsets``, ``counts`` and ``first`` are int64 [runs]: drive address, blocks and first block of each; ``segments``
    is an index of the segments they belong to. ``lasting``: later steps will ask for the same runs.
    """

    offsets: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    segments: slice | npt.NDArray[np.int64]
    lasting: bool

    @cached_property
    def places(self) -> Places:
        """(drive address, blocks) of every run."""
        return tuple(zip(self.offsets.tolist(), self.counts.tolist(), strict=True))

    def table(self, c: npt.NDArray[np.uint16], r: npt.NDArray[np.uint8], b: npt.NDArray[np.int32]) -> RunTable:
        """The runs of a request whose query scales by ``c``, ``r`` and ``b``, [segments, G] each."""
        rows = c[self.segments], r[self.segments], b[self.segments]
        return RunTable(self.places, *rows) if self.lasting else ScatteredRuns(self.offsets, self.counts, *rows)


def span_runs(runs: Sequence[ScoreRun], first: int, last: int, size: int) -> BlockRuns:
    """The runs that hold blocks ``first`` .. ``last`` (exclusive), ``size`` bytes each, of a stream's ``runs``."""
    found, start = [], 0
    for run in runs:
        low, high = max(first - start, 0), min(last - start, run.blocks)
        if low < high:
            found.append((run.offset + low * size, high - low, start + low, run.segment))
        start += run.blocks
    offsets, counts, begins, segments = np.array(found, np.int64).reshape(-1, 4).T
    in_order = (segments == np.arange(len(found))).all()
    return BlockRuns(offsets, counts, begins, slice(len(found)) if in_order else segments, lasting=True)


class RunIndex:
    """A stream's ``runs`` as arrays, for as long as none is added."""

    def __init__(self, runs: Sequence[ScoreRun]) -> None:
        self._start = np.cumsum([0, *[run.blocks for run in runs]])
        self._offset = np.array([run.offset for run in runs], np.int64)
        self._segment = np.array([run.segment for run in runs], np.int64)

    def scattered(self, blocks: npt.NDArray[np.int64], size: int) -> BlockRuns:
        """The runs that hold ``blocks`` (ascending, distinct); ``size`` bytes per block."""
        owner = np.searchsorted(self._start, blocks, side="right") - 1
        begins, counts = stretches(changes(blocks + owner * self._start[-1], 1))
        owner, first = owner[begins], blocks[begins]
        offsets = self._offset[owner] + (first - self._start[owner]) * size
        return BlockRuns(offsets, counts, first, self._segment[owner], lasting=False)
