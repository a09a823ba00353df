"""``rtl:PATH?ddr=SIZE&latency=TIME&bandwidth=SIZE``: a SmartSSD whose kernel is the RTL, simulated in this process.

The drive and device DRAM are those of the emulated drive; every score comes from the Verilated kernel, cycle by cycle,
over a memory with the given latency and bandwidth (per second, of all ports together). Results are those of the
emulated drive to the byte; cycles, beats and stalls are in ``Telemetry.extra`` (``rtl_figures.py``).
"""

from __future__ import annotations

import re

from nearkv_drivers.device import Capabilities, DeviceError
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.frames import FrameTable
from nearkv_drivers.hardware import kernel_interface
from nearkv_drivers.hardware_device import HardwareDevice
from nearkv_drivers.memory import HUGE_PAGE, aligned_buffer
from nearkv_drivers.native_kernel import reduce_native
from nearkv_drivers.rtl_build import library
from nearkv_drivers.rtl_figures import KERNEL_HZ
from nearkv_drivers.rtl_kernel import RtlKernel
from nearkv_drivers.urls import DeviceUrl

DEFAULT_DDR = 4 << 30
"""Device DRAM of a SmartSSD in bytes; host memory is taken as it fills."""

DEFAULT_LATENCY = "200ns"
"""From a read's address to its first beat through a platform's interconnect and DDR4 controller."""

DEFAULT_BANDWIDTH = 19_200_000_000
"""DDR4-2400, 64 bits wide: 64 bytes in each cycle of a 300 MHz kernel."""

MAX_LATENCY_CYCLES = 1 << 19
"""Half of what the kernel's watchdog waits for."""

_TIME = re.compile(r"(\d+(?:\.\d+)?)(ns|us)")


def latency_cycles(text: str) -> int:
    """Cycles at 300 MHz of a time such as ``200ns`` or ``75us``; DeviceError for anything else."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise DeviceError(f"latency={text} is not a time: give a number and a unit (ns, us)")
    cycles = round(float(match[1]) * {"ns": 1e-9, "us": 1e-6}[match[2]] * KERNEL_HZ)
    if cycles > MAX_LATENCY_CYCLES:
        most = int(MAX_LATENCY_CYCLES / KERNEL_HZ * 1e6)
        raise DeviceError(f"latency={text} is beyond what the kernel waits for: at most {most}us")
    return cycles


def open_url(url: DeviceUrl) -> HardwareDevice:
    """Open the simulated drive that ``url`` names; the first one builds the simulation (minutes).

    Options: ``ddr`` (size of the device DRAM), ``latency`` (ns or us) and ``bandwidth`` (bytes per second) of its
    memory. The defaults are those of a SmartSSD's DDR4-2400.
    """
    url.only("ddr", "latency", "bandwidth")
    if not url.path:
        raise DeviceError(f"'{url.text}' names no file: write rtl:PATH, for example rtl:/data/kv.drive")
    dram_bytes = url.size("ddr", DEFAULT_DDR)
    latency = latency_cycles(url.options.get("latency", DEFAULT_LATENCY))
    bandwidth = url.size("bandwidth", DEFAULT_BANDWIDTH)
    if not bandwidth:
        raise DeviceError("bandwidth=0 moves nothing: give bytes per second, such as 19.2GB")
    frames = FrameTable(dram_bytes)  # refuses a size that is too small before the file exists
    path = library()
    memory = aligned_buffer(dram_bytes, HUGE_PAGE)
    drive = DriveFile(url.path)
    capabilities = Capabilities(
        "simulated RTL kernel",
        max_blocks=kernel_interface()["limits"]["store_rows"],
        device_dram_bytes=dram_bytes,
        direct_io=drive.direct_io,
        simulated=True,
    )
    kernel = RtlKernel(path, memory, reduce_native, latency=latency, bytes_per_cycle=bandwidth / KERNEL_HZ)
    return HardwareDevice(url.text, capabilities, drive, memory, kernel, reduce_native, frames)
