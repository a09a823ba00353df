"""A stand-in for pyxrt with the behaviour of the real one that matters here, its traps included.

Names and signatures are those of XRT's pybind11 module. A fixture binds the module to one card (``bind``).
"""

from __future__ import annotations

import ctypes
import enum
import json
import mmap
import os
import types
import weakref
from pathlib import Path

import numpy as np

from nearkv_drivers.memory import address_of, aligned_buffer

from . import xrt_card

PAGE = 4096


class xclBOSyncDirection(enum.Enum):  # noqa: N801
    XCL_BO_SYNC_BO_TO_DEVICE = 0
    XCL_BO_SYNC_BO_FROM_DEVICE = 1


class ert_cmd_state(enum.Enum):  # noqa: N801
    ERT_CMD_STATE_NEW = 1
    ERT_CMD_STATE_QUEUED = 2
    ERT_CMD_STATE_COMPLETED = 4
    ERT_CMD_STATE_ERROR = 5
    ERT_CMD_STATE_ABORT = 6
    ERT_CMD_STATE_SUBMITTED = 7
    ERT_CMD_STATE_TIMEOUT = 8
    ERT_CMD_STATE_NORESPONSE = 9
    ERT_CMD_STATE_SKERROR = 10
    ERT_CMD_STATE_SKCRASHED = 11


class xrt_info_device(enum.Enum):  # noqa: N801
    bdf = 0
    name = 5
    electrical = 8
    thermal = 9
    platform = 12


class uuid:  # noqa: N801
    def __init__(self, text: str) -> None:
        self._text = text

    def to_string(self) -> str:
        return self._text


class xclbin:  # noqa: N801
    def __init__(self, path: str) -> None:
        try:
            self.content = json.loads(Path(path).read_text())
        except ValueError:
            raise RuntimeError("Invalid xclbin") from None

    def get_kernels(self) -> list:
        methods = {"get_name": lambda: self.content["kernel"]}
        if not _card.faults.old:
            methods["get_num_args"] = lambda: len(self.content["arguments"])
        return [types.SimpleNamespace(**methods)]

    def get_xsa_name(self) -> str:
        return self.content["platform"]

    def get_uuid(self) -> uuid:
        return uuid(self.content["uuid"])

    def get_mems(self) -> list:
        return [
            types.SimpleNamespace(
                get_tag=lambda b=bank: b["tag"], get_index=lambda b=bank: b["index"],
                get_size_kb=lambda b=bank: b["size_kb"], get_used=lambda b=bank: b["used"],
            )
            for bank in self.content["banks"]
        ]  # fmt: skip


class device:  # noqa: N801
    def __init__(self, address: str) -> None:
        if address != xrt_card.ADDRESS:
            raise RuntimeError(f"No such device '{address}'")
        self.card = _card

    def load_xclbin(self, image: xclbin) -> uuid:
        if self.card.faults.refuses_xclbin:
            raise RuntimeError("failed to load xclbin: Invalid argument")
        self.card.load(image.content)
        return self.get_xclbin_uuid()

    def get_xclbin_uuid(self) -> uuid:
        return uuid("0" * 8 if self.card.faults.other_uuid else self.card.loaded["uuid"])

    def get_info(self, key: xrt_info_device) -> str:
        """JSON for what is a record, with numbers as strings and 0 for a sensor that is not there."""
        faults = self.card.faults
        if faults.mute:
            raise RuntimeError("No such query request")
        thermals = [("fpga0", "FPGA", faults.celsius), ("pcb_top_front", "PCB Top Front", "0")]
        answers = {
            xrt_info_device.bdf: xrt_card.ADDRESS,
            xrt_info_device.name: xrt_card.SHELL,
            xrt_info_device.electrical: json.dumps({"power_consumption_watts": "0.000000"}),
            xrt_info_device.thermal: json.dumps(
                {"thermals": [{"location_id": at, "description": what, "temp_C": value, "is_present": "true"}
                              for at, what, value in thermals]}
            ),
            xrt_info_device.platform: json.dumps(
                {"platforms": [{"static_region": {"vbnv": xrt_card.SHELL},
                                "status": {"mig_calibrated": "true", "p2p_status": faults.p2p_status}}]}
            ),
        }  # fmt: skip
        return answers[key]


class bo:  # noqa: N801
    class flags(enum.Enum):  # noqa: N801
        normal = 0
        cacheable = 1 << 24
        device_only = 1 << 28
        host_only = 1 << 29
        p2p = 1 << 30

    def __init__(self, on: device, size: int, flags: flags, group: int) -> None:
        card = on.card
        if group not in {bank["index"] for bank in card.loaded["banks"]}:
            raise RuntimeError(f"Failed to allocate BO: no memory bank {group}")
        if size >= 4 << 30:
            raise RuntimeError("Failed to allocate BO: Invalid argument")
        self._bank, self._size, self._p2p = card.bank, size, flags == self.flags.p2p
        if self._p2p and (size % PAGE or card.faults.p2p == "refused"):
            raise RuntimeError("Failed to allocate BO: Invalid argument")
        self._at = self._bank.take(size)
        self._device = self._bank.bytes[self._at : self._at + size]
        self._host = self._mapping(card.faults.p2p) if self._p2p else _pages(size)
        weakref.finalize(self, _free, self._bank, self._at, None if self._p2p else self._host)

    def _mapping(self, fault: str) -> np.ndarray:
        """What P2P maps: the card's DRAM, unless the mapping has failed in one of the ways that nobody reports."""
        if fault == "dead":
            return _dead(self._size)
        if fault == "detached":
            return _pages(self._size)
        if fault == "wraps":
            return _wrapped(self._bank.file, self._at, self._size)
        if fault == "misaligned":
            return aligned_buffer(self._size + PAGE)[64 : 64 + self._size]
        return self._device

    def size(self) -> int:
        return self._size

    def address(self) -> int:
        return self._at

    def map(self) -> memoryview:
        """As pybind11's from_memory: the view does not keep the buffer alive."""
        return memoryview(self._host)

    def sync(self, way: xclBOSyncDirection, size: int | None = None, offset: int = 0) -> None:
        size = self._size if size is None else size
        if offset + size > self._size:
            raise RuntimeError("Invalid argument")
        if self._p2p:
            return
        host, card = self._host[offset : offset + size], self._device[offset : offset + size]
        if way == xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE:
            card[:] = host
        else:
            host[:] = card

    def write(self, data, seek: int) -> None:
        data = np.frombuffer(data, np.uint8)
        self._host[seek : seek + data.size] = data

    def read(self, size: int, skip: int) -> np.ndarray:
        """With NumPy 2 the real one returns ones: https://github.com/Xilinx/XRT/issues/8258."""
        if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
            return np.ones(size, np.int8)
        return self._host[skip : skip + size].view(np.int8).copy()


def _pages(size: int) -> np.ndarray:
    pages = aligned_buffer(size)
    pages[:] = 0xA5
    return pages


def _dead(size: int) -> np.ndarray:
    """Pages behind which there is nothing: touching them raises SIGBUS, system calls on them fail with EFAULT."""
    fd = os.memfd_create("dead")
    os.ftruncate(fd, size)
    mapping = mmap.mmap(fd, size)
    os.ftruncate(fd, 0)
    os.close(fd)
    return np.frombuffer(mapping, np.uint8)


def _wrapped(file: int, at: int, size: int) -> np.ndarray:
    """A window of ``size`` bytes whose upper half shows the lower half's memory again."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    window = np.frombuffer(mmap.mmap(-1, size), np.uint8)
    half, fixed = size // 2 // PAGE * PAGE, 0x10
    for first in (0, half):
        where = address_of(window) + first
        protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | fixed
        assert libc.mmap(where, min(half, size - first), protection, flags, file, at) == where
    return window


def _free(bank, at: int, host: np.ndarray | None) -> None:
    bank.give_back(at)
    if host is not None:
        host[:] = 0xDD  # a real mapping is gone


class kernel:  # noqa: N801
    class cu_access_mode(enum.Enum):  # noqa: N801
        exclusive = 0
        shared = 1

    def __init__(self, on: device, of: uuid, name: str, mode: cu_access_mode) -> None:
        assert mode is self.cu_access_mode.shared
        if of.to_string() != on.get_xclbin_uuid().to_string() or name != on.card.loaded["kernel"]:
            raise RuntimeError(f"No such kernel '{name}'")
        self.card = on.card
        self.arguments = on.card.loaded["arguments"]

    def group_id(self, index: int) -> int:
        if self.arguments[index]["addressQualifier"] != "1":
            raise RuntimeError("argument is no global buffer")
        return 0

    def __call__(self, *values) -> run:
        started = run(self)
        for index, value in enumerate(values):
            started.set_arg(index, value)
        started.start()
        return started


class run:  # noqa: N801
    def __init__(self, of: kernel) -> None:
        self._kernel = of
        self._values: dict[int, int] = {}
        self._kept: dict[int, bo] = {}
        self.progress = types.SimpleNamespace(state="ERT_CMD_STATE_NEW")

    def set_arg(self, index: int, value) -> None:
        """Buffers and C ints arrive; floats and wider integers do not, and nobody says so.

        So it was reported. The sources that could be read do this in ``kernel()``, and raise TypeError here.
        """
        if isinstance(value, bo):
            self._values[index], self._kept[index] = value.address(), value
        elif isinstance(value, int) and -(2**31) <= value < 2**31:
            self._values[index] = value & 0xFFFFFFFF

    def registers(self) -> dict[int, int]:
        found = {}
        for index, argument in enumerate(self._kernel.arguments):
            value, offset = self._values.get(index, 0), int(argument["offset"], 16)
            for word in range(int(argument["size"], 16) // 4):
                found[offset + 4 * word] = value >> 32 * word & 0xFFFFFFFF
        return found

    def start(self) -> None:
        self.progress.state = "ERT_CMD_STATE_SUBMITTED"
        self._kernel.card.enqueue(self)

    def state(self) -> ert_cmd_state:
        return ert_cmd_state[self.progress.state]


def bind(card: xrt_card.XrtCard) -> None:
    """Make ``card`` the one card of this machine."""
    global _card
    _card = card


_card: xrt_card.XrtCard
