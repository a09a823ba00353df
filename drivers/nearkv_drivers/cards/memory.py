"""The card's DRAM: one buffer object that the kernel reads, and how the drive's reads get into it.

With P2P the buffer is mapped into the host's address space through the card's PCIe window, and a direct read of the
drive goes straight into it. Without, reads land in the buffer's copy in host memory and are synchronised to the card.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from nearkv_drivers.cards.model import CardError
from nearkv_drivers.device import ALIGNMENT
from nearkv_drivers.memory import address_of

BUFFER_LIMIT = 4 << 30
"""XRT does not support buffer objects of this size or more."""


def allocate(xrt: Any, device: Any, size: int, flags: Any, group: int, what: str) -> Any:
    """A buffer object of ``size`` bytes, rounded up to whole pages. Raises CardError where XRT gives none."""
    size = -(-size // ALIGNMENT) * ALIGNMENT
    if size >= BUFFER_LIMIT:
        raise CardError(f"{what} of {size} bytes is too large: XRT's buffers are smaller than {BUFFER_LIMIT} bytes")
    try:
        return xrt.bo(device, size, flags, group)
    except (RuntimeError, MemoryError) as error:
        raise CardError(
            f"the card has no room for {what} of {size} bytes ({error}): give a smaller ddr=, or end what else uses it"
        ) from error


def mapped(buffer: Any) -> npt.NDArray[np.uint8]:
    """The buffer as uint8 [n]. Reading goes through the mapping: with NumPy 2, pyxrt's bo.read has returned wrong data.

    The mapping ends with the buffer, which pyxrt does not keep alive for it: whoever holds the array holds the buffer.
    """
    array: npt.NDArray[np.uint8] = np.frombuffer(buffer.map(), np.uint8)
    if address_of(array) % ALIGNMENT:
        raise CardError(f"XRT mapped a buffer at {address_of(array):#x}, not on {ALIGNMENT} bytes: update XRT")
    if not array.flags.writeable:
        raise CardError("XRT mapped a buffer that cannot be written: update XRT")
    return array


class P2pMemory:
    """Device memory that the drive writes into: ``array`` is the card's DRAM itself, seen through its PCIe window."""

    path = "drive_to_device"

    def __init__(self, xrt: Any, device: Any, size: int, group: int) -> None:
        self.buffer = allocate(xrt, device, size, xrt.bo.flags.p2p, group, "a P2P buffer")
        try:
            self.array = mapped(self.buffer)
        except RuntimeError as error:
            raise CardError(f"XRT does not map the P2P buffer ({error})") from error
        if self.array.size < size:
            raise CardError(f"XRT maps only {self.array.size} of the P2P buffer's {size} bytes")
        _probe(self.array)

    def publish(self, first: int, size: int) -> None:
        """Reads the last byte back: what was written to the card before has arrived when the answer has."""
        self.array[first + size - 1].item()


def _probe(array: npt.NDArray[np.uint8]) -> None:
    """Touch the mapping's ends through system calls: they return an error where an access of ours would be a SIGBUS."""
    view = array.data
    with os.fdopen(os.memfd_create("nearkv-probe"), "r+b", buffering=0) as pages:
        os.pwrite(pages.fileno(), bytes(range(256)) * (ALIGNMENT // 256), 0)
        for first in (0, array.size - ALIGNMENT):
            try:
                os.preadv(pages.fileno(), [view[first : first + ALIGNMENT]], 0)
                os.pwritev(pages.fileno(), [view[first : first + ALIGNMENT]], 0)
            except OSError as error:
                raise CardError(f"the P2P window is allocated but not mapped ({error.strerror})") from error


class HostMemory:
    """Device memory with a copy in host memory, ``array``, which is synchronised range by range."""

    path = "drive_to_device_through_host"

    def __init__(self, xrt: Any, device: Any, size: int, group: int) -> None:
        self.buffer = allocate(xrt, device, size, xrt.bo.flags.normal, group, "device memory")
        self.array = mapped(self.buffer)
        self._to_device = xrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE

    def publish(self, first: int, size: int) -> None:
        """Copies the range to the card."""
        self.buffer.sync(self._to_device, size, first)
