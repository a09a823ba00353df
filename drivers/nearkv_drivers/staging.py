"""Filling device DRAM from the drive: which frames, which pages, and what must not be evicted or believed meanwhile."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearkv_drivers.commands import Layout, ScatteredLayout
from nearkv_drivers.device import ReadHandle
from nearkv_drivers.drive_file import DriveFile, DriveTransfer
from nearkv_drivers.frames import Frame, FrameTable, page_mask, page_runs
from nearkv_drivers.kernel import KernelHandle
from nearkv_drivers.landing import Landing
from nearkv_drivers.memory import address_of


class Running(NamedTuple):
    """A kernel start in flight and the slabs whose frames it reads."""

    handle: KernelHandle
    slabs: frozenset[int]


class Staging(NamedTuple):
    """Reads in flight into the frames of ``pages`` (slab → mask of the pages read)."""

    transfer: DriveTransfer
    pages: Mapping[int, int]
    bytes: int


class _Write(NamedTuple):
    first: int
    end: int
    handle: ReadHandle


class DeviceMemory:
    """Device DRAM of ``memory.size`` bytes as frames of the drive, kept true while reads, writes and starts overlap.

    ``base`` is the device's own address of the memory's first byte; ``landing`` makes what was put there visible to it.
    """

    def __init__(
        self, drive: DriveFile, memory: npt.NDArray[np.uint8], table: FrameTable, landing: Landing, base: int = 0
    ) -> None:
        self.memory = memory
        self.landing = landing
        self.base = base
        self.table = table
        self.lock = threading.RLock()
        self._drive = drive
        self._host_address = address_of(memory)
        self._running: deque[Running] = deque()
        self._held: frozenset[int] = frozenset()
        self._writes: deque[_Write] = deque()

    def resident(self, slab: int, pages: int) -> Frame | None:
        """The frame of ``slab`` if all of ``pages`` in it are valid; makes it the most recently used."""
        frame = self.table.get(slab)
        if frame is None or frame.valid & pages != pages:
            return None
        self.table.touch(slab, frame)
        return frame

    def addresses(self, layout: Layout | ScatteredLayout, slabs: set[int]) -> list[int] | npt.NDArray[np.int64] | None:
        """Device addresses of the pieces of ``layout`` if all are resident, else None; ``slabs`` gets theirs."""
        frames = [self.resident(slab, pages) for slab, pages in layout.spans]
        starts = [self.base + frame.start for frame in frames if frame is not None]
        if len(starts) == len(frames):
            slabs.update(slab for slab, _ in layout.spans)
            found: npt.NDArray[np.int64] = np.array(starts, np.int64)[layout.which] + layout.at
            return found
        if isinstance(layout, Layout):
            return None
        addresses = []  # of pages between its runs, some may be missing that no run needs
        for piece in layout.pieces:
            frame = self.resident(piece.slab, piece.pages)
            if frame is None:
                return None
            slabs.add(piece.slab)
            addresses.append(self.base + frame.start + piece.at)
        return addresses

    def device_address(self, slab: int, at: int) -> int:
        """Device address of byte ``at`` of the frame of ``slab``, which is held or pinned."""
        frame = self.table.get(slab)
        assert frame is not None, "a held frame was evicted"
        return self.base + frame.start + at

    def resident_first(self, slabs: Iterable[int]) -> list[int]:
        """``slabs`` in order, those that have a frame before those that have none."""
        with self.lock:
            return sorted(slabs, key=lambda slab: self.table.get(slab) is None)

    def pin(self, handle: KernelHandle, slabs: frozenset[int]) -> None:
        """Keep the frames of ``slabs`` where they are until ``handle`` is done."""
        self._reap()
        self._running.append(Running(handle, slabs))

    def drain(self) -> None:
        """Wait for every pinned start; its failure stays with whoever submitted it."""
        with self.lock:
            running = list(self._running)
        for start in running:
            with contextlib.suppress(Exception):
                start.handle.wait()

    def hold(self, slabs: frozenset[int]) -> None:
        """Keep the frames of ``slabs`` where they are until the next call; one stager may do so at a time."""
        with self.lock:
            self._held = slabs

    def wrote(self, first: int, data: npt.NDArray[np.uint8], score_blocks: bool, handle: ReadHandle) -> int:
        """Take note of a write of ``data`` at drive address ``first``; returns the bytes written through.

        Score blocks are copied into their frames while any is free; other data only ends what was valid there.
        """
        end = first + data.size
        through = 0
        with self.lock:
            self._reap()
            self._writes.append(_Write(first, end, handle))
            for slab, low, high in self.table.overlapping(first, end):
                base = slab * self.table.slab_bytes
                own = low < base + self.table.slab_bytes
                frame = self.table.admit(slab) if score_blocks and own else self.table.get(slab)
                if frame is None:
                    continue
                pages = page_mask(low - base, high - base)
                if score_blocks:
                    start = frame.start - base
                    self.memory[start + low : start + high] = data[low - first : high - first]
                    self.landing.publish(start + low, high - low)
                    through += high - low
                    frame.valid |= pages & ~frame.staging
                else:
                    frame.valid &= ~pages
                frame.staging &= ~pages
        return through

    def begin(self, needs: Mapping[int, int]) -> Staging:
        """Start reading what is missing of ``needs`` (slab → mask of pages), which the caller holds.

        Waits for kernel starts in flight where they keep frames that are needed.
        """
        while True:
            with self.lock:
                protected = self._protected() | needs.keys()
                if all(self.table.acquire(slab, protected) is not None for slab in needs):
                    return self._read_missing(needs)
                blocking = self._running[0].handle
            blocking.wait()

    def finish(self, staging: Staging) -> None:
        """Return when the reads are complete; what no write has touched meanwhile becomes valid."""
        try:
            staging.transfer.wait()
            for first, size in self._landed(staging):
                self.landing.publish(first, size)
        except BaseException:
            self._settle(staging, valid=False)
            raise
        self._settle(staging, valid=True)

    def _landed(self, staging: Staging) -> list[tuple[int, int]]:
        """Ranges of the memory that ``staging`` filled."""
        ranges = []
        with self.lock:
            for slab, pages in staging.pages.items():
                frame = self.table.get(slab)
                assert frame is not None, "a held frame was evicted"
                ranges += [(frame.start + first, size) for first, size in page_runs(pages)]
        return ranges

    def _settle(self, staging: Staging, valid: bool) -> None:
        with self.lock:
            for slab in staging.pages:
                frame = self.table.get(slab)
                assert frame is not None, "a held frame was evicted"
                if valid:
                    frame.valid |= frame.staging
                frame.staging = 0

    def _read_missing(self, needs: Mapping[int, int]) -> Staging:
        offsets, sizes, addresses = [], [], []
        pages = {}
        for slab, need in needs.items():
            frame = self.table.get(slab)
            assert frame is not None
            missing = need & ~frame.valid
            if not missing:
                continue
            pages[slab] = missing
            for first, size in page_runs(missing):
                offsets.append(slab * self.table.slab_bytes + first)
                sizes.append(size)
                addresses.append(self._host_address + frame.start + first)
        transfer = self._drive.read(
            np.array(offsets, np.int64), np.array(sizes, np.int64), np.array(addresses, np.uint64)
        )
        for slab, missing in pages.items():
            frame = self.table.get(slab)
            assert frame is not None
            frame.staging = missing
        self._distrust_written(pages)
        return Staging(transfer, pages, sum(sizes))

    def _distrust_written(self, pages: Mapping[int, int]) -> None:
        """Pages with a write in flight may be read before or after it: use them now, do not keep them."""
        for write in self._writes:
            if write.handle.done():
                continue
            for slab, low, high in self.table.overlapping(write.first, write.end):
                if slab in pages:
                    frame = self.table.get(slab)
                    assert frame is not None
                    base = slab * self.table.slab_bytes
                    frame.staging &= ~page_mask(low - base, high - base)

    def _reap(self) -> None:
        while self._running and self._running[0].handle.done():
            self._running.popleft()
        while self._writes and self._writes[0].handle.done():
            self._writes.popleft()

    def _protected(self) -> frozenset[int]:
        self._reap()
        return self._held.union(*(running.slabs for running in self._running))
