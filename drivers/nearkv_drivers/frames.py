"""Device DRAM as a cache of the drive's score blocks: equal frames, each a window on one slab of drive addresses.

A slab is a fixed, aligned range of drive addresses. Its frame also has room for the few pages after it, so that every
block that begins in a slab lies whole and contiguous in that slab's frame and the kernel needs no seams. Frames know
which of their 4 KiB pages hold what the drive holds; the least recently used frame makes room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nearkv_drivers.device import ALIGNMENT, DeviceError
from nearkv_drivers.wire import ROW_WIDTHS, block_bytes

SLAB_BYTES = 1 << 20
"""Drive bytes per slab where device DRAM is large: what a P2P read needs for its rate."""

OVERHANG_BYTES = -(-(block_bytes(ROW_WIDTHS[-1], 8) - 1) // ALIGNMENT) * ALIGNMENT
"""Room after a slab for the rest of a block that begins on its last byte."""

MIN_FRAMES = 16
"""Frames that even a small device DRAM is cut into, so that windows can alternate."""


def page_mask(first: int, end: int) -> int:
    """Bit mask of the pages that bytes ``first`` .. ``end`` (exclusive) of a frame touch."""
    return (1 << -(-end // ALIGNMENT)) - (1 << first // ALIGNMENT)


def page_runs(mask: int) -> Iterator[tuple[int, int]]:
    """Byte ranges (first, size) of the consecutive pages in ``mask``."""
    page = 0
    while mask:
        gap = (mask & -mask).bit_length() - 1
        mask >>= gap
        page += gap
        run = (~mask & (mask + 1)).bit_length() - 1
        yield page * ALIGNMENT, run * ALIGNMENT
        mask >>= run
        page += run


@dataclass(slots=True)
class Frame:
    """``start`` is the frame's first byte in device DRAM; ``valid`` the pages that equal the drive's.

    ``staging`` are pages that a read is filling; a write to one of them takes its bit away, so that it stays invalid.
    """

    start: int
    valid: int = 0
    staging: int = 0


class FrameTable:
    """Which slab lies in which frame. Not thread-safe: the device holds its lock around every call."""

    def __init__(self, dram_bytes: int) -> None:
        slab = min(SLAB_BYTES, (dram_bytes // MIN_FRAMES - OVERHANG_BYTES) // ALIGNMENT * ALIGNMENT)
        if slab < ALIGNMENT:
            raise DeviceError(
                f"device DRAM of {dram_bytes} bytes is too small: at least "
                f"{MIN_FRAMES * (ALIGNMENT + OVERHANG_BYTES)} bytes are needed (ddr=)"
            )
        self.slab_bytes = slab
        self.stride = slab + OVERHANG_BYTES
        self.count = dram_bytes // self.stride
        self._free = [Frame(i * self.stride) for i in reversed(range(self.count))]
        self._frames: OrderedDict[int, Frame] = OrderedDict()

    @property
    def used_bytes(self) -> int:
        """Device DRAM in frames that hold a slab."""
        return len(self._frames) * self.stride

    def get(self, slab: int) -> Frame | None:
        """The frame of ``slab``, if it has one."""
        return self._frames.get(slab)

    def touch(self, slab: int) -> None:
        """Make ``slab`` the most recently used."""
        self._frames.move_to_end(slab)

    def acquire(self, slab: int, protected: Collection[int]) -> Frame | None:
        """The frame of ``slab``, evicting the least recently used slab not in ``protected`` where none is free.

        None where every frame is protected.
        """
        frame = self._frames.get(slab)
        if frame is None:
            if self._free:
                frame = self._free.pop()
            else:
                victim = next((s for s, f in self._frames.items() if s not in protected and not f.staging), None)
                if victim is None:
                    return None
                frame = self._frames.pop(victim)
            frame.valid = 0
            self._frames[slab] = frame
        self._frames.move_to_end(slab)
        return frame

    def overlapping(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Slabs whose frame would hold any of drive bytes ``first`` .. ``end``: (slab, first, end) of the overlap."""
        slab = max(0, (first - OVERHANG_BYTES) // self.slab_bytes)
        while slab * self.slab_bytes < end:
            base = slab * self.slab_bytes
            low, high = max(first, base), min(end, base + self.stride)
            if low < high:
                yield slab, low, high
            slab += 1
