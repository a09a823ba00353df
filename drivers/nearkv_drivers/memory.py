"""Host memory that drive I/O may use: aligned buffers and their addresses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import ALIGNMENT, DeviceError

HUGE_PAGE = 2 << 20
"""Bytes of a huge page: large buffers start on one, which the score kernel reads faster."""


def aligned_buffer(size: int, alignment: int = ALIGNMENT) -> npt.NDArray[np.uint8]:
    """Uninitialised uint8 [size] whose address is a multiple of ``alignment`` bytes, as drive I/O needs it.

    Pages take no memory until they are touched. Raises DeviceError where the system does not give that much.
    """
    try:
        raw = np.empty(size + alignment, np.uint8)
    except (MemoryError, ValueError) as error:
        raise DeviceError(f"the system does not give {size:,} bytes of memory: ask for less (ddr=)") from error
    start = -address_of(raw) % alignment
    return raw[start : start + size]


def address_of(array: npt.NDArray[np.generic]) -> int:
    """Host address (bytes) of the first element."""
    return int(array.__array_interface__["data"][0])
