"""``emulated:PATH?ddr=SIZE``: a SmartSSD without the card.

A real store on a real file, host memory for the card's DRAM, the native kernel for the FPGA's. What it returns and
how many bytes it moves are those of a card with the same ``ddr``; how long that takes is the host's business.
"""

from __future__ import annotations

from nearkv_drivers.device import Capabilities, DeviceError
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.frames import FrameTable
from nearkv_drivers.memory import HUGE_PAGE, aligned_buffer
from nearkv_drivers.native_kernel import NativeKernel, reduce_native
from nearkv_drivers.staged import StagedDevice
from nearkv_drivers.urls import DeviceUrl

DEFAULT_DDR = 4 << 30
"""Device DRAM of a SmartSSD in bytes; host memory is taken as it fills."""


def open_url(url: DeviceUrl) -> StagedDevice:
    """Open the emulated drive that ``url`` names. Options: ``ddr`` (size of the device DRAM)."""
    url.only("ddr")
    if not url.path:
        raise DeviceError(f"'{url.text}' names no file: write emulated:PATH, for example emulated:/data/kv.drive")
    dram_bytes = url.size("ddr", DEFAULT_DDR)
    memory = aligned_buffer(dram_bytes, HUGE_PAGE)
    frames = FrameTable(dram_bytes)  # refuses a size that is too small before the file exists
    drive = DriveFile(url.path)
    capabilities = Capabilities(
        "emulated drive", device_dram_bytes=dram_bytes, direct_io=drive.direct_io, simulated=True
    )
    return StagedDevice(url.text, capabilities, drive, memory, NativeKernel(memory), reduce_native, frames)
