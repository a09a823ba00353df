"""The board's DRAM: contiguous buffers that the kernel reads, apart from the memory that drive reads land in.

A PYNQ buffer is mapped as device memory, which direct I/O may not use. So the drive reads into ordinary host memory,
and what landed is copied into the buffer and flushed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearkv_drivers.boards.overlay import BoardError
from nearkv_drivers.device import ALIGNMENT
from nearkv_drivers.memory import aligned_buffer


def allocate(pynq: Any, size: int, what: str) -> Any:
    """A buffer of ``size`` bytes (uint8). Raises BoardError where the kernel has no contiguous memory of that size."""
    try:
        buffer = pynq.allocate(shape=(size,), dtype=np.uint8)
    except (RuntimeError, MemoryError, OSError) as error:
        raise BoardError(
            f"the board has no contiguous memory for {what} of {size} bytes ({error}): give a smaller ddr=, or more "
            "CMA (cma= in the kernel's boot arguments)"
        ) from error
    if buffer.device_address % ALIGNMENT:
        raise BoardError(f"PYNQ allocated {what} at {buffer.device_address:#x}, not on {ALIGNMENT} bytes: update PYNQ")
    return buffer


class BoardMemory:
    """Device memory of ``size`` bytes as ``buffer``, and its copy ``array`` in host memory."""

    path = "drive_to_device_through_host"

    def __init__(self, pynq: Any, size: int) -> None:
        self.buffer = allocate(pynq, size, "device memory")
        self.array = aligned_buffer(size)

    def publish(self, first: int, size: int) -> None:
        """Copies the range into the buffer, and out of the processor's caches."""
        there = self.buffer[first : first + size]
        there[:] = self.array[first : first + size]
        there.flush()
