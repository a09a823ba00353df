"""Where things lie on the drive: extents handed out in drive order, and score extents that grow by whole pages."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nearkv.cache.buffers import aligned_bytes
from nearkv_drivers.device import ALIGNMENT, Device, ReadHandle


def round_up(nbytes: int) -> int:
    """``nbytes`` rounded up to the drive's alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


ARENA_BYTES = 32 << 20
"""Drive space taken at a time for one kind of extent, so that extents of a kind lie together."""


class ExtentAllocator:
    """Hands out aligned extents of a drive's address space, score extents apart from KV extents.

    Within a kind they follow each other in the order they are asked for: the score blocks of a model then fill few
    large pieces of the drive, which the device reads and keeps in whole pieces.
    """

    def __init__(self) -> None:
        self._end = 0
        self._arenas: dict[str, tuple[int, int]] = {}

    def allocate(self, nbytes: int, kind: str) -> int:
        """Drive address of a new extent of at least ``nbytes`` among those of ``kind``."""
        size = round_up(nbytes)
        start, end = self._arenas.get(kind, (0, 0))
        if start + size > end:
            if end != self._end:  # the arena cannot simply be extended
                start = self._end
            self._end = end = max(start + size, self._end + ARENA_BYTES)
        self._arenas[kind] = start + size, end
        return start


@dataclass
class ScoreExtent:
    """Consecutive score blocks on the drive.

    A drive writes whole pages, so the last partial page is kept and written again when blocks follow: the bytes that
    were already there do not change.
    """

    offset: int
    capacity: int
    used: int = 0
    _tail: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))

    def room(self, block_bytes: int) -> int:
        """How many more blocks of ``block_bytes`` fit."""
        return (self.capacity - self.used) // block_bytes

    def append(self, blocks: npt.NDArray[np.uint8], device: Device) -> tuple[ReadHandle, npt.NDArray[np.uint8]]:
        """Write ``blocks`` (uint8 [n, block bytes]) behind what is there.

        Returns the write's handle and the buffer that must stay alive until it is done.
        """
        start = self.used - len(self._tail)
        data = aligned_bytes(round_up(len(self._tail) + blocks.size))
        data[: len(self._tail)] = self._tail
        data[len(self._tail) : len(self._tail) + blocks.size] = blocks.reshape(-1)
        self.used += blocks.size
        partial = self.used % ALIGNMENT
        begin = self.used - partial - start
        self._tail = data[begin : begin + partial].copy()
        return device.write(self.offset + start, data, score_blocks=True), data
