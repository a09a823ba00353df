"""``emulated:PATH?ddr=SIZE&score=RATE&link=RATE``: a SmartSSD without the card.

A real store on a real file, host memory for the card's DRAM, the native kernel for the FPGA's. What it returns and
how many bytes it moves are those of a card with the same ``ddr``; how long that takes is the host's business, unless
``score`` and ``link`` hold the kernel and the drive's reads to stated bandwidths (``pacing.py``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nearkv_drivers.device import Capabilities, DeviceError, Telemetry
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.frames import FrameTable
from nearkv_drivers.io_engine import default_engine
from nearkv_drivers.memory import HUGE_PAGE, aligned_buffer
from nearkv_drivers.native_kernel import NativeKernel, reduce_native
from nearkv_drivers.pacing import Pace, PacedEngine, PacedKernel
from nearkv_drivers.staged import StagedDevice
from nearkv_drivers.urls import DeviceUrl

DEFAULT_DDR = 4 << 30
"""Device DRAM of a SmartSSD in bytes; host memory is taken as it fills."""


class PacedDevice(StagedDevice):
    """An emulated drive held to simulated bandwidths: ``score`` that of its kernel, ``link`` that of its reads."""

    def __init__(self, *args: Any, score: Pace, link: Pace, **options: Any) -> None:
        super().__init__(*args, **options)
        self._score, self._link = score, link

    def set_pace(self, *, score: float | None = None, link: float | None = None) -> None:
        """Change a bandwidth (bytes per second) for what is submitted from now on, as a drive that throttles does.

        None leaves it as it is. Raises DeviceError for one that is not positive.
        """
        if score is not None:
            self._score.set_rate(score)
        if link is not None:
            self._link.set_rate(link)

    def telemetry(self) -> Telemetry:
        """The device's counters; ``extra`` has the rates that are simulated, in bytes per second."""
        telemetry = super().telemetry()
        paces = {"simulated_score_rate": self._score.rate, "simulated_link_rate": self._link.rate}
        telemetry.extra |= {name: rate for name, rate in paces.items() if rate is not None}
        return telemetry


def open_url(url: DeviceUrl) -> StagedDevice:
    """Open the emulated drive that ``url`` names.

    Options: ``ddr`` (size of the device DRAM), ``score`` and ``link`` (bandwidths to simulate, such as 1.4GiB/s).
    """
    url.only("ddr", "score", "link")
    if not url.path:
        raise DeviceError(f"'{url.text}' names no file: write emulated:PATH, for example emulated:/data/kv.drive")
    dram_bytes = url.size("ddr", DEFAULT_DDR)
    score, link = (Pace(name, url.rate(name)) for name in ("score", "link"))
    memory = aligned_buffer(dram_bytes, HUGE_PAGE)
    frames = FrameTable(dram_bytes)  # refuses a size that is too small before the file exists
    paced = score.rate is not None or link.rate is not None
    drive = DriveFile(url.path, engine=PacedEngine(default_engine(), link) if paced else None)
    capabilities = Capabilities(
        "emulated drive", device_dram_bytes=dram_bytes, direct_io=drive.direct_io, simulated=True
    )
    kernel = NativeKernel(memory)
    if not paced:
        return StagedDevice(url.text, capabilities, drive, memory, kernel, reduce_native, frames)
    return PacedDevice(
        url.text,
        replace(capabilities, name="emulated drive, simulated bandwidth"),
        drive,
        memory,
        PacedKernel(kernel, score),
        reduce_native,
        frames,
        score=score,
        link=link,
    )
