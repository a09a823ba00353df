"""How bytes get into device DRAM where the drive and the host do not write into it directly.

A device's memory is what drive reads land in. Where that is the kernel's own memory (host memory of an emulated
drive, a mapped P2P window of a card), landing is all there is to it. Where it is a copy in host memory, every range
must be published to the device before the kernel may read it.
"""

from __future__ import annotations

from typing import Protocol


class Landing(Protocol):
    """``path`` is the counter of Telemetry that staged bytes belong to."""

    path: str

    def publish(self, first: int, size: int) -> None:
        """Return when the kernel sees bytes ``first`` .. ``first + size`` of the memory as they are there now."""


class InPlace:
    """The kernel reads the very memory that was written."""

    path = "drive_to_device"

    def publish(self, first: int, size: int) -> None:
        """Nothing to do."""
