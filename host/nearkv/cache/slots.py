"""Memory of a hot pool: slots of one block each, as many per stream as it may use now.

Address space is reserved ahead and costs nothing until it is touched; slots that a stream may no longer use give their
pages back at once. So a pool follows its quota exactly, up and down, and blocks never move because it grew.
"""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

from nearkv.errors import MemoryLimitError
from nearkv_drivers import address_of
from nearkv_drivers.device import ALIGNMENT

RESERVE_SLOTS = 16
"""Slots per stream for which address space is reserved at least when a pool grows."""


class SlotMemory:
    """Slots of ``block_bytes`` for each of ``streams``; :meth:`resize` says how many may be used.

    ``addresses`` uint64 [S, n] is where each slot lies in host memory (page-aligned where blocks are whole pages), 0
    where there is none; a stream may use the first ``quota`` [S] of its slots.
    """

    def __init__(self, streams: int, block_bytes: int) -> None:
        self.block_bytes = block_bytes
        self.addresses = np.zeros((streams, 0), np.uint64)
        self.quota = np.zeros(streams, np.int64)
        self._reserved = np.zeros(streams, np.int64)
        self._maps: list[tuple[int, mmap.mmap]] = []

    @property
    def nbytes(self) -> int:
        """Bytes of the slots that may be used now: no more than these are backed by memory."""
        return int(self.quota.sum()) * self.block_bytes

    def resize(self, quota: npt.NDArray[np.int64]) -> None:
        """Let the streams use ``quota`` [S] slots each. What was in slots beyond it is lost.

        Raises MemoryLimitError where the system does not give that much address space.
        """
        for stream in np.flatnonzero(quota < self.quota).tolist():
            self._give_back(self.addresses[stream, quota[stream] : self.quota[stream]])
        if (quota > self._reserved).any():
            self._reserve(quota)
        self.quota = quota.copy()

    def _reserve(self, quota: npt.NDArray[np.int64]) -> None:
        """Address space for the slots that are missing, in one piece, those of a stream side by side."""
        missing = np.maximum(quota - self._reserved, 0)
        if self._maps:  # it grows, and will again
            missing = np.where(missing > 0, np.maximum(missing, RESERVE_SLOTS), 0)
        reserved = self._reserved + missing
        size = int(missing.sum()) * self.block_bytes
        try:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            raise MemoryLimitError(
                f"the system does not give a layer's hot pool {size:,} bytes of memory: lower the budget or set a "
                "DRAM limit"
            ) from error
        # The first piece is used whole; of a later one huge pages would take more than its streams may use.
        memory.madvise(mmap.MADV_NOHUGEPAGE if self._maps else mmap.MADV_HUGEPAGE)
        base = address_of(np.frombuffer(memory, np.uint8))
        self._maps.append((base, memory))
        wide = max(int(reserved.max()), self.addresses.shape[1])
        grown = np.zeros((len(reserved), wide), np.uint64)
        grown[:, : self.addresses.shape[1]] = self.addresses
        first = base + (np.cumsum(missing) - missing) * self.block_bytes
        for stream in np.flatnonzero(missing).tolist():
            places = first[stream] + np.arange(missing[stream]) * self.block_bytes
            grown[stream, self._reserved[stream] : reserved[stream]] = places
        self.addresses, self._reserved = grown, reserved

    def _give_back(self, addresses: npt.NDArray[np.uint64]) -> None:
        """Return the whole pages of the slots at ``addresses`` to the system."""
        if self.block_bytes < ALIGNMENT:
            return
        for address in addresses.tolist():
            base, memory = next(each for each in reversed(self._maps) if each[0] <= address < each[0] + len(each[1]))
            start = -(-(address - base) // ALIGNMENT) * ALIGNMENT
            end = (address - base + self.block_bytes) // ALIGNMENT * ALIGNMENT
            memory.madvise(mmap.MADV_DONTNEED, start, end - start)
