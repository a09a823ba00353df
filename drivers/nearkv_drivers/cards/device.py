"""``card:ADDRESS?xclbin=FILE&file=PATH``: a SmartSSD, or another XRT card with a drive beside it.

The drive file lies on the card's NVMe drive. With P2P its score blocks are read straight into the card's DRAM, where
the kernel scores them; without, they go through host memory, which is said in a warning and counted on a path of its
own. Before anything else uses the card it must return known answers for blocks that came by every path.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

from nearkv_drivers.bring_up import BringUp
from nearkv_drivers.cards.kernel import CardKernel
from nearkv_drivers.cards.memory import BUFFER_LIMIT, HostMemory, P2pMemory
from nearkv_drivers.cards.model import FPGA_STOP_CELSIUS, Card, CardError, P2p
from nearkv_drivers.cards.session import XrtCard
from nearkv_drivers.cards.slots import ARGUMENTS
from nearkv_drivers.cards.topology import drive_of, drives_beside
from nearkv_drivers.cards.xrt import tool_name
from nearkv_drivers.device import Capabilities, DeviceError, Telemetry
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.frames import FrameTable
from nearkv_drivers.hardware import kernel_interface
from nearkv_drivers.hardware_device import HardwareDevice
from nearkv_drivers.native_kernel import reduce_native
from nearkv_drivers.urls import DeviceUrl

RESERVED_BYTES = 128 << 20
"""Of the card's DRAM, for commands and results: those of a start with 60 requests that return every log-mass of 65,536
blocks for eight heads."""

SMARTSSD_DDR = 4 << 30
"""Where the xclbin does not say how large the bank is."""

P2P_MODES = ("auto", "on", "off")


class CardWarning(RuntimeWarning):
    """The card works, but not as it could."""


class P2pOffWarning(CardWarning):
    """Score blocks go through host memory: right, but no faster than the host's own drives."""


@dataclass(frozen=True)
class Options:
    """What a card URL says. ``ddr`` is None where the bank's size decides; ``p2p`` is one of P2P_MODES."""

    address: str
    xclbin: Path
    file: Path
    kernel: str
    compute_units: int
    ddr: int | None
    p2p: str


def read_options(url: DeviceUrl) -> Options:
    """Raises DeviceError for what a card URL must not say or lacks."""
    url.only("xclbin", "file", "kernel", "cus", "ddr", "p2p")
    if not url.path:
        raise DeviceError(f"'{url.text}' names no card: write card:0000:65:00.1?xclbin=FILE&file=PATH")
    for name, what in (("xclbin", "the built kernel"), ("file", "a path on the card's drive")):
        if not url.options.get(name):
            raise DeviceError(f"'{url.text}' lacks {name}= ({what}): write card:{url.path}?xclbin=FILE&file=PATH")
    units, p2p = url.options.get("cus", "1"), url.options.get("p2p", "auto")
    if not units.isdecimal() or not int(units):
        raise DeviceError(f"cus={units} is not a number of compute units: give as many as the xclbin links (nk=)")
    if p2p not in P2P_MODES:
        raise DeviceError(f"p2p={p2p} is not one of {', '.join(P2P_MODES)}")
    ddr = url.size("ddr", 0) if "ddr" in url.options else None
    if ddr is not None and ddr >= BUFFER_LIMIT:
        raise DeviceError(f"ddr={url.options['ddr']} is too large: XRT's buffers are smaller than {BUFFER_LIMIT} bytes")
    return Options(
        url.path, Path(url.options["xclbin"]), Path(url.options["file"]),
        url.options.get("kernel", kernel_interface()["kernel"]), int(units), ddr, p2p,
    )  # fmt: skip


class CardDevice(HardwareDevice):
    """A staged device around a card, which adds the kernel's figures and the card's temperature to the telemetry."""

    card: XrtCard

    def telemetry(self) -> Telemetry:
        """The device's counters; in ``extra`` those of RunFigures, and ``fpga_celsius`` where the card says it."""
        telemetry = super().telemetry()
        celsius = self.card.celsius()
        if celsius is not None:
            telemetry.extra["fpga_celsius"] = celsius
        return telemetry


def open_url(url: DeviceUrl) -> CardDevice:
    """Open and test the card that ``url`` names.

    Options: ``xclbin``, ``file`` (drive file on the card's NVMe), ``kernel`` (XRT's name of it), ``cus`` (compute
    units to spread requests over), ``ddr`` (size of the device DRAM), ``p2p`` (``auto`` falls back to host memory with
    a warning, ``on`` refuses to, ``off`` measures without).
    """
    options = read_options(url)
    if options.ddr is not None:
        FrameTable(options.ddr)  # refuses a size that is too small before the card is touched
    card = XrtCard(options.address, options.xclbin, options.kernel)
    report = card.report()
    _refuse_heat(report)
    drive = DriveFile(options.file)
    try:
        memory, kernel, frames = _bring_up(card, drive, options, report)
    except BaseException:
        drive.close()
        raise
    if isinstance(memory, P2pMemory):
        _warn_of_another_drive(card.address, drive.path)
    capabilities = Capabilities(
        f"card {card.address} {card.shell}".rstrip(),
        max_blocks=kernel_interface()["limits"]["store_rows"],
        device_dram_bytes=frames.count * frames.stride,
        direct_io=drive.direct_io,
        p2p=isinstance(memory, P2pMemory),
    )
    device = CardDevice(url.text, capabilities, drive, memory.array, kernel, reduce_native, frames, landing=memory)
    device.card = card
    return device


Memory = P2pMemory | HostMemory


def _bring_up(
    card: XrtCard, drive: DriveFile, options: Options, report: Card | None
) -> tuple[Memory, CardKernel, FrameTable]:
    """Device memory that has passed its tests, by P2P if that works."""
    why = "p2p=off asks for it"
    if options.p2p != "off":
        try:
            if not drive.direct_io:
                raise CardError(f"{drive.path} lies on a file system without direct I/O (use ext4 or XFS on the drive)")
            return _tested(card, P2pMemory, drive.path, options)
        except DeviceError as error:
            why = str(error)  # the text only: the traceback would keep the P2P buffer, and with it the card's DRAM
        remedy = (report.p2p if report else P2p.UNKNOWN).remedy(tool_name(), card.address)
        why += f"; {remedy}" if remedy else ""
        if options.p2p == "on":
            raise CardError(f"P2P does not work on card {card.address}: {why}")
    found = _tested(card, HostMemory, drive.path, options)
    size = found[0].array.size
    warnings.warn(
        f"card {card.address}: score blocks go THROUGH HOST MEMORY, {size} bytes of it, and not from the drive into "
        f"the card ({why})",
        P2pOffWarning,
        stacklevel=2,
    )
    return found


def _tested(
    card: XrtCard, kind: type[P2pMemory] | type[HostMemory], drive: Path, options: Options
) -> tuple[Memory, CardKernel, FrameTable]:
    group = card.group(ARGUMENTS["keys"])
    frames = FrameTable(options.ddr or memory_bytes(card.bank_bytes(group)))
    memory: Memory = kind(card.xrt, card.device, frames.count * frames.stride, group)
    kernel = CardKernel(card, memory.buffer, reduce_native, options.compute_units)
    test = BringUp(memory.array, memory, kernel)
    test.from_host()
    test.from_drive(drive)
    return memory, kernel, frames


def memory_bytes(bank: int | None) -> int:
    """Device memory where the URL gives no size: all of the ``bank`` (bytes; None: not known) but what starts need.

    Raises CardError for a bank without room.
    """
    size = min(bank or SMARTSSD_DDR, BUFFER_LIMIT) - RESERVED_BYTES
    if size <= 0:
        raise CardError(f"the kernel's memory bank of {bank} bytes leaves no room for score blocks: give ddr=")
    return size


def _warn_of_another_drive(address: str, file: Path) -> None:
    """P2P to a drive that is not the card's own crosses the host's PCIe root, at best slowly."""
    own, used = drives_beside(address), drive_of(file)
    if own and used not in own:
        warnings.warn(
            f"{file} lies on {used or 'no NVMe drive'}, but the drive beside card {address} is {', '.join(own)}: give "
            "a path on that one",
            CardWarning,
            stacklevel=3,
        )


def _refuse_heat(report: Card | None) -> None:
    celsius = report.fpga_celsius if report else None
    if celsius is not None and celsius >= FPGA_STOP_CELSIUS:
        raise CardError(
            f"card {report.address if report else ''}: the FPGA is at {celsius} °C, where the shell stops the kernel "
            "clock: cool it, then try again"
        )
