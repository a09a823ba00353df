"""``pynq:BITSTREAM.bit?file=PATH``: the score kernel on a Zynq UltraScale+ board, for hardware in the loop.

The drive file lies on whatever the board has, an NVMe drive or an SD card; its score blocks go through the
processor's memory into buffers that the kernel reads. It scores like a card and is no measure of one.
"""

from __future__ import annotations

from pathlib import Path

from nearkv_drivers.boards.kernel import BoardKernel
from nearkv_drivers.boards.memory import BoardMemory
from nearkv_drivers.boards.overlay import KernelOverlay
from nearkv_drivers.bring_up import BringUp
from nearkv_drivers.device import Capabilities, DeviceError
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.frames import FrameTable
from nearkv_drivers.hardware import kernel_interface
from nearkv_drivers.hardware_device import HardwareDevice
from nearkv_drivers.native_kernel import reduce_native
from nearkv_drivers.urls import DeviceUrl

DEFAULT_DDR = 64 << 20
"""Half of the contiguous memory that PYNQ's images set aside on the smaller boards."""


def open_url(url: DeviceUrl) -> HardwareDevice:
    """Load the bitstream that ``url`` names and test it.

    Options: ``file`` (drive file), ``ddr`` (size of the device memory), ``kernel`` (name of the IP, where there are
    several).
    """
    url.only("file", "ddr", "kernel")
    if not url.path or not url.options.get("file"):
        raise DeviceError(f"'{url.text}' lacks a bitstream or file=: write pynq:/path/nearkv.bit?file=/data/kv.drive")
    frames = FrameTable(url.size("ddr", DEFAULT_DDR))  # refuses a size that is too small before the board is touched
    overlay = KernelOverlay(Path(url.path), url.options.get("kernel", kernel_interface()["kernel"]))
    drive = DriveFile(url.options["file"])
    kernel = None
    try:
        memory = BoardMemory(overlay.pynq, frames.count * frames.stride)
        kernel = BoardKernel(overlay, memory.buffer, reduce_native)
        test = BringUp(memory.array, memory, kernel)
        test.from_host()
        test.from_drive(drive.path)
    except BaseException:
        if kernel is not None:
            kernel.close()
        drive.close()
        raise
    capabilities = Capabilities(
        f"board kernel {overlay.name}",
        max_blocks=kernel_interface()["limits"]["store_rows"],
        device_dram_bytes=memory.array.size,
        direct_io=drive.direct_io,
        p2p=False,
    )
    return HardwareDevice(url.text, capabilities, drive, memory.array, kernel, reduce_native, frames, landing=memory)
