"""The Verilated kernel with its registers, for stand-ins of XRT and PYNQ: one unit over a card's or board's DRAM."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from pathlib import Path

import numpy as np

from nearkv_drivers.memory import address_of

LATENCY_CYCLES = 60
CYCLES_PER_LOOK = 20_000


class SimulatedUnit:
    """A kernel whose three masters see ``dram`` (uint8 [n]) from address 0 on. Used by one thread at a time."""

    def __init__(self, library: Path, dram: np.ndarray) -> None:
        self._lib = ctypes.CDLL(str(library))
        pointer, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
        self._lib.nearkv_rtl_open.argtypes = [pointer, u64, u32, ctypes.c_double]
        self._lib.nearkv_rtl_open.restype = pointer
        self._lib.nearkv_rtl_write.argtypes = [pointer, u32, u32]
        self._lib.nearkv_rtl_write.restype = None
        self._lib.nearkv_rtl_read.argtypes = [pointer, u32]
        self._lib.nearkv_rtl_read.restype = u32
        self._lib.nearkv_rtl_advance.argtypes = [pointer, u64]
        self._lib.nearkv_rtl_close.argtypes = [pointer]
        self._dram = dram
        self._kernel = self._lib.nearkv_rtl_open(address_of(dram), dram.size, LATENCY_CYCLES, 0.0)
        assert self._kernel

    def write(self, offset: int, value: int) -> None:
        self._lib.nearkv_rtl_write(self._kernel, offset, value)

    def read(self, offset: int) -> int:
        return self._lib.nearkv_rtl_read(self._kernel, offset)

    def advance(self, cycles: int = CYCLES_PER_LOOK) -> bool:
        """Let time pass, up to the interrupt; returns whether it is high."""
        return bool(self._lib.nearkv_rtl_advance(self._kernel, cycles))

    def close(self) -> None:
        self._lib.nearkv_rtl_close(self._kernel)
        self._kernel = None


class Bank:
    """A memory bank with a first-fit allocator. What is freed keeps its bytes, as DRAM does."""

    FIRST = 1 << 16  # so that no buffer has address 0
    GAP = 4096  # so that what runs over a buffer's end hits no other

    def __init__(self, size: int) -> None:
        self.file = os.memfd_create("bank")
        os.ftruncate(self.file, size)
        self.bytes = np.frombuffer(mmap.mmap(self.file, size), np.uint8)
        weakref.finalize(self, os.close, self.file)
        self._taken: dict[int, int] = {}

    def take(self, size: int) -> int:
        at = self.FIRST
        for first, end in sorted(self._taken.items()):
            if at + size + self.GAP <= first:
                break
            at = end + self.GAP
        if at + size > self.bytes.size:
            raise MemoryError("bad_alloc")
        self._taken[at] = at + size
        return at

    def give_back(self, at: int) -> None:
        del self._taken[at]

    @property
    def taken_bytes(self) -> int:
        return sum(end - first for first, end in self._taken.items())
