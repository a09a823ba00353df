"""A stand-in for pynq on a Zynq board, with the behaviour of the real one that matters here, its traps included.

The board is one Verilated kernel over contiguous memory; the processor sees that memory through a cache, so what is
not flushed does not reach the kernel, and what is not invalidated is not seen. A fixture binds it (``bind``).
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nearkv_drivers.hardware import kernel_interface

from .simulated import Bank, SimulatedUnit

__version__ = "3.1.2"

IP = "nearkv_kernel_0"
TYPE = f"nearkv:kernel:{kernel_interface()['kernel']}:1.0"


@dataclass
class Board:
    """``fails`` is what Overlay raises; ``hangs`` keeps the kernel's clock still; ``shift`` is where a wrong .hwh
    puts the registers."""

    library: Path
    bank: Bank = field(default_factory=lambda: Bank(64 << 20))
    fails: Exception | None = None
    hangs: bool = False
    shift: int = 0
    unit: SimulatedUnit | None = None

    def __post_init__(self) -> None:
        self.lock = threading.Lock()

    def close(self) -> None:
        if self.unit is not None:
            self.unit.close()
            self.unit = None


class Overlay:
    """The content of the "bitstream" is the dictionary of its IP."""

    def __init__(self, bitfile_name: str) -> None:
        if _board.fails is not None:
            raise _board.fails
        self.ip_dict = json.loads(Path(bitfile_name).read_text())
        _board.close()
        _board.unit = SimulatedUnit(_board.library, _board.bank.bytes)


class MMIO:
    def __init__(self, base_addr: int, length: int = 4) -> None:
        self.base_addr, self.length = base_addr, length

    def read(self, offset: int = 0, length: int = 4, word_order: str = "little") -> int:
        self._check(offset)
        with _board.lock:
            if not _board.hangs:
                _board.unit.advance()
            return _board.unit.read(offset + _board.shift)

    def write(self, offset: int, data: int) -> None:
        self._check(offset)
        if type(data) is not int:
            raise ValueError("Data type must be int or bytes.")
        with _board.lock:
            _board.unit.write(offset + _board.shift, int(np.uint32(data)))

    def _check(self, offset: int) -> None:
        if offset % 4:
            raise MemoryError("Unaligned access: offset must be multiple of 4.")
        if not 0 <= offset < self.length:
            raise IndexError(f"index {offset >> 2} is out of bounds")


class PynqBuffer(np.ndarray):
    """What the processor sees, uint8 [n]; slices know where in the buffer they begin."""

    def __array_finalize__(self, parent) -> None:
        self.owner = getattr(parent, "owner", None)
        if self.owner is not None:
            self.offset = self.__array_interface__["data"][0] - self.owner.start
            self.device_address = self.owner.at + self.offset

    def flush(self) -> None:
        _board.bank.bytes[self.device_address : self.device_address + self.nbytes] = self

    def invalidate(self) -> None:
        self[:] = _board.bank.bytes[self.device_address : self.device_address + self.nbytes]


class _Owner:
    """The contiguous memory behind a buffer and its slices."""

    def __init__(self, at: int, start: int) -> None:
        self.at, self.start, self.bank = at, start, _board.bank

    def __del__(self) -> None:
        self.bank.give_back(self.at)


def allocate(shape: tuple[int, ...], dtype=np.uint32) -> PynqBuffer:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    try:
        at = _board.bank.take(-(-size // 4096) * 4096)
    except MemoryError:
        raise RuntimeError("BO allocation failed: bad_alloc") from None
    buffer = np.full(size, 0xA5, np.uint8).view(dtype).reshape(shape).view(PynqBuffer)
    buffer.owner = _Owner(at, buffer.__array_interface__["data"][0])
    buffer.offset, buffer.device_address = 0, at
    return buffer


def write_bitstream(path: Path, ips: dict | None = None) -> Path:
    """A file that the stand-in takes for a bitstream, with its .hwh."""
    default = {
        IP: {"type": TYPE, "phys_addr": 0xA000_0000, "addr_range": 0x1000},
        "axi_intc_0": {"type": "x:y:axi_intc:4"},
    }
    path.write_text(json.dumps(default if ips is None else ips))
    path.with_suffix(".hwh").write_text("")
    return path


def bind(board: Board) -> None:
    """Make ``board`` the board that this runs on."""
    global _board
    _board = board


_board: Board
