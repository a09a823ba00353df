"""Device DRAM as a cache of the drive's score blocks: equal frames, each a window on one slab of drive addresses.

A slab is a fixed, aligned range of drive addresses. Its frame also has room for the few pages after it, so that every
block that begins in a slab lies whole and contiguous in that slab's frame and the kernel needs no seams. Frames know
which of their 4 KiB pages hold what the drive holds.

Decoding walks over all layers, token after token. Where that is more than device DRAM holds, evicting the least
recently used frame would evict each one just before its turn and never hit. So the frame used last makes room, whose
turn comes last; only frames that missed two turns, as those of a finished sequence, go before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nearkv_drivers.device import ALIGNMENT, DeviceError
from nearkv_drivers.wire import ROW_WIDTHS, block_bytes

SLAB_BYTES = 1 << 20
"""Drive bytes per slab where device DRAM is large: one staged read, of the size that a P2P read needs for its rate."""

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
    ``used`` is the turn (see FrameTable.turn) of the last use.
    """

    start: int
    valid: int = 0
    staging: int = 0
    used: int = 0


class FrameTable:
    """Which slab lies in which frame. Not thread-safe: the device holds its lock around every call.

    ``turn`` counts kernel starts; the caller advances it.
    """

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
        self.turn = 0
        self._free = [i * self.stride for i in reversed(range(self.count))]
        self._frames: OrderedDict[int, Frame] = OrderedDict()  # least recently used first
        self._evicted: OrderedDict[int, int] = OrderedDict()  # slab → turn of its last use
        self._interval = 0  # turns between the last two uses of what was used again last

    @property
    def used_bytes(self) -> int:
        """Device DRAM in frames that hold a slab."""
        return len(self._frames) * self.stride

    def get(self, slab: int) -> Frame | None:
        """The frame of ``slab``, if it has one."""
        return self._frames.get(slab)

    def touch(self, slab: int, frame: Frame) -> None:
        """Note that ``frame``, which is that of ``slab``, is used in this turn."""
        if frame.used != self.turn:
            self._interval = self.turn - frame.used
            frame.used = self.turn
        self._frames.move_to_end(slab)

    def admit(self, slab: int) -> Frame | None:
        """The frame of ``slab``, a free one where it has none; None where none is free."""
        frame = self._frames.get(slab)
        if frame is None and self._free:
            frame = self._frames[slab] = Frame(self._free.pop(), used=self.turn)
        return frame

    def acquire(self, slab: int, protected: Collection[int]) -> Frame | None:
        """The frame of ``slab`` for use in this turn, evicting a slab not in ``protected`` where none is free.

        None where every frame is protected.
        """
        frame = self.admit(slab)
        if frame is None:
            victim = self._victim(protected)
            if victim is None:
                return None
            evicted = self._frames.pop(victim)
            self._evicted[victim] = evicted.used
            if len(self._evicted) > 4 * self.count:
                self._evicted.popitem(last=False)
            frame = self._frames[slab] = Frame(evicted.start, used=self._evicted.pop(slab, self.turn))
        self.touch(slab, frame)
        return frame

    def _victim(self, protected: Collection[int]) -> int | None:
        evictable = (slab for slab, frame in self._frames.items() if slab not in protected and not frame.staging)
        oldest = next(evictable, None)
        if oldest is None or self.turn - self._frames[oldest].used > 2 * self._interval:
            return oldest
        recent = reversed(self._frames.items())
        return next(slab for slab, frame in recent if slab not in protected and not frame.staging)

    def overlapping(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Slabs whose frame would hold any of drive bytes ``first`` .. ``end``: (slab, first, end) of the overlap."""
        slab = max(0, (first - OVERHANG_BYTES) // self.slab_bytes)
        while slab * self.slab_bytes < end:
            base = slab * self.slab_bytes
            low, high = max(first, base), min(end, base + self.stride)
            if low < high:
                yield slab, low, high
            slab += 1
