"""The seam below a drive file: who performs batches of positional reads and writes.

``_io.PoolEngine`` (threads with preadv and pwritev) is the one that exists; a completion ring, or an engine that
injects faults, fits behind the same two protocols.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from nearkv_drivers._io import PoolEngine


class IoBatch(Protocol):
    """A submitted batch of transfers."""

    def wait(self) -> tuple[int, int] | None:
        """Return when nothing is in flight: None, or the first failure as (errno, file offset); errno 0: file ended."""

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""


class IoEngine(Protocol):
    """Performs batches."""

    def submit(
        self,
        fd: int,
        write: bool,
        offsets: npt.NDArray[np.int64],
        addresses: npt.NDArray[np.uint64],
        lengths: npt.NDArray[np.int64],
    ) -> IoBatch:
        """Start transfers between file ``offsets`` and memory ``addresses``; one length for each or one for all."""


DEFAULT_THREADS = 16
"""Requests in flight per drive, besides that of the waiting thread."""


def default_engine() -> IoEngine:
    """The engine that a drive file uses unless it is given another."""
    return PoolEngine(DEFAULT_THREADS)
