"""What nearkv knows of a SmartSSD (or another XRT card): shell, P2P, temperatures, power and link."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nearkv_drivers.device import DeviceError

SMARTSSD_SHELLS = ("xilinx_u2_", "samsung_u2")
"""How the names of the SmartSSD's platforms begin; other XRT cards have no drive behind their FPGA."""

FPGA_SLOW_CELSIUS, FPGA_STOP_CELSIUS = 93, 97
"""Where the SmartSSD's shell begins to slow the kernel clock, and where it may stop it."""


class CardError(DeviceError):
    """A card or XRT's tools cannot do what was asked; the message names the thing and the remedy."""


class P2p(Enum):
    """State of the card's peer-to-peer window, through which the drive writes into the FPGA's DRAM."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    NEEDS_REBOOT = "needs a warm reboot"
    """Enabled, but the BIOS has not set aside the address space yet; XRT says "reboot" or (2022.2 on) "no iomem"."""
    ERROR = "error"
    NOT_SUPPORTED = "not supported"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, status: str | None) -> P2p:
        """From XRT's words, whichever version's."""
        known = {
            "enabled": cls.ENABLED, "disabled": cls.DISABLED, "error": cls.ERROR, "not supported": cls.NOT_SUPPORTED,
            "reboot": cls.NEEDS_REBOOT, "no iomem": cls.NEEDS_REBOOT, "no_iomem": cls.NEEDS_REBOOT,
            "true": cls.ENABLED, "false": cls.DISABLED,
        }  # fmt: skip
        return known.get((status or "").strip().lower(), cls.UNKNOWN)

    def remedy(self, tool: str, address: str) -> str | None:
        """What to do to get P2P, one sentence; None where it works."""
        enable = f"sudo {tool} configure --p2p enable -d {address}"
        return {
            P2p.ENABLED: None,
            P2p.DISABLED: f"P2P is off (as after every cold boot): {enable}, then reboot warm if asked to",
            P2p.NEEDS_REBOOT: "P2P waits for address space: reboot warm; if that changes nothing, "
            "enable Above 4G Decoding and a large MMIO range in the BIOS",
            P2p.ERROR: f"P2P is set up wrongly: sudo {tool} configure --p2p disable -d {address}, then {enable}",
            P2p.NOT_SUPPORTED: "this shell has no P2P: flash the SmartSSD's own platform, or go through host memory",
            P2p.UNKNOWN: f"{tool} does not say whether P2P is on: run it with sudo, or update XRT",
        }[self]


@dataclass(frozen=True)
class ListedCard:
    """One line of the host report. ``shell`` is empty where the driver does not answer."""

    address: str
    shell: str
    ready: bool

    @property
    def is_smartssd(self) -> bool:
        """Whether a drive sits behind the card's FPGA."""
        return self.shell.lower().startswith(SMARTSSD_SHELLS)


@dataclass(frozen=True)
class Temperature:
    """One sensor; ``celsius`` is None where the card has none there (XRT reads 0)."""

    location: str
    description: str
    celsius: int | None


@dataclass(frozen=True)
class Link:
    """PCI Express link: generation and lanes, as trained and as the card could. None where XRT does not say."""

    generation: int | None
    lanes: int | None
    best_generation: int | None
    best_lanes: int | None

    @property
    def degraded(self) -> bool:
        """Trained below what the card could do: a wrong slot or backplane halves every transfer."""
        pairs = ((self.generation, self.best_generation), (self.lanes, self.best_lanes))
        return any(now is not None and best is not None and now < best for now, best in pairs)

    def __str__(self) -> str:
        if self.generation is None or self.lanes is None:
            return "unknown"
        best = f" (could be Gen{self.best_generation} x{self.best_lanes})" if self.degraded else ""
        return f"Gen{self.generation} x{self.lanes}{best}"


@dataclass(frozen=True)
class Clock:
    """A clock of the shell in MHz; the kernel runs at the one described as Data or Kernel."""

    name: str
    description: str
    mhz: int | None


@dataclass(frozen=True)
class Card:
    """Everything that XRT reports of one card. Power is in watts; None where the card has no sensor."""

    address: str
    status: str
    shell: str
    p2p: P2p
    p2p_text: str
    """XRT's own word for the P2P state."""
    ddr_bytes: int | None
    ddr_calibrated: bool | None
    temperatures: tuple[Temperature, ...]
    watts: float | None
    link: Link
    clocks: tuple[Clock, ...]

    @property
    def is_smartssd(self) -> bool:
        """Whether a drive sits behind the card's FPGA."""
        return self.shell.lower().startswith(SMARTSSD_SHELLS)

    @property
    def fpga_celsius(self) -> int | None:
        """The FPGA die's temperature."""
        return next((one.celsius for one in self.temperatures if one.location.lower() in ("fpga0", "fpga")), None)

    @property
    def complaints(self) -> tuple[str, ...]:
        """What a person should look at, one sentence each."""
        found = []
        celsius = self.fpga_celsius
        if celsius is not None and celsius >= FPGA_STOP_CELSIUS:
            found.append(f"FPGA at {celsius} °C: the shell may stop the kernel clock")
        elif celsius is not None and celsius >= FPGA_SLOW_CELSIUS:
            found.append(f"FPGA at {celsius} °C: the shell slows the kernel clock")
        if self.link.degraded:
            found.append(f"PCIe link {self.link}")
        if self.ddr_calibrated is False:
            found.append("the card's DRAM is not calibrated: power-cycle it")
        if self.status and self.status.upper() not in ("HEALTHY", "NOT SUPPORTED", "N/A"):
            found.append(f"XRT calls the card {self.status}")
        return tuple(found)
