"""The runs of a score request as arrays: what a caller with many steps to score builds, and what a kernel reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import DeviceError, Run

Places = tuple[tuple[int, int], ...]
"""(drive address, blocks) of every run; the requests of many steps may share one."""


class RunTable(Sequence[Run]):
    """Runs at ``places``, and their ``c`` uint16, ``r`` uint8 and ``b`` int32, each [runs, G] and C-contiguous."""

    def __init__(
        self, places: Places, c: npt.NDArray[np.uint16], r: npt.NDArray[np.uint8], b: npt.NDArray[np.int32]
    ) -> None:
        self._places, self.c, self.r, self.b = places, c, r, b

    @property
    def places(self) -> Places:
        """(drive address, blocks) of every run."""
        return self._places

    def __len__(self) -> int:
        return len(self.c)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> RunTable: ...
    def __getitem__(self, index: int | slice) -> Run | RunTable:
        c, r, b = self.c[index], self.r[index], self.b[index]
        return RunTable(self.places[index], c, r, b) if isinstance(index, slice) else Run(*self.places[index], c, r, b)


class ScatteredRuns(RunTable):
    """Runs whose places are another step's no more: as arrays, and not worth remembering.

    ``offsets`` and ``counts`` are int64 [runs], drive addresses and blocks.
    """

    def __init__(
        self,
        offsets: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        c: npt.NDArray[np.uint16],
        r: npt.NDArray[np.uint8],
        b: npt.NDArray[np.int32],
    ) -> None:
        super().__init__((), c, r, b)
        self.offsets, self.counts = offsets, counts

    @property
    def places(self) -> Places:
        """(drive address, blocks) of every run."""
        return tuple(zip(self.offsets.tolist(), self.counts.tolist(), strict=True))


def stretches(begins: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """First index and length of every stretch of ``begins``, which says where one begins (the first does at 0)."""
    first = np.flatnonzero(begins)
    counts = np.empty_like(first)
    np.subtract(first[1:], first[:-1], out=counts[:-1])
    counts[-1:] = len(begins) - first[-1:]
    return first, counts


def changes(values: npt.NDArray[np.int64], step: int) -> npt.NDArray[np.bool_]:
    """Where ``values`` [n] are not ``step`` more than the value before; so is the first."""
    begins = np.ones(len(values), bool)
    np.not_equal(values[1:] - values[:-1], step, out=begins[1:])
    return begins


def run_table(runs: Sequence[Run], group: int) -> RunTable:
    """``runs`` as arrays, unless they are that already. Raises DeviceError where they are not for ``group`` heads."""
    if not isinstance(runs, RunTable):
        if any(not len(run.c) == len(run.r) == len(run.b) == group for run in runs):
            raise DeviceError(f"c, r and b of every run must be [{group}], one value per query head")
        shape = len(runs), group
        runs = RunTable(
            tuple((run.offset, run.blocks) for run in runs),
            np.array([run.c for run in runs], np.uint16).reshape(shape),
            np.array([run.r for run in runs], np.uint8).reshape(shape),
            np.array([run.b for run in runs], np.int32).reshape(shape),
        )
        return runs
    count = len(runs.offsets) if isinstance(runs, ScatteredRuns) else len(runs.places)
    if not runs.c.shape == runs.r.shape == runs.b.shape == (count, group):
        raise DeviceError(f"c, r and b must be [{count}, {group}]: a row per run, a value per query head")
    return runs
