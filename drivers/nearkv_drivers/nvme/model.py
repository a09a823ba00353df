"""What nearkv knows of an NVMe drive. Units are bytes, degrees Celsius, percent; field numbers are NVMe 2.0's."""

from __future__ import annotations

import re
from dataclasses import dataclass

DATA_UNIT_BYTES = 512_000
"""SMART counts data in thousands of 512 bytes, whatever the sector size."""

DEFAULT_WARNING_CELSIUS = 70
"""Where drives that do not state a threshold begin to throttle."""

WARNINGS = (
    "available spare is below its threshold",
    "temperature is outside its thresholds",
    "reliability is degraded",
    "the media is read-only",
    "the volatile memory backup failed",
    "the persistent memory region is read-only",
)
"""Meaning of the critical warning's bits, lowest first."""

NODE = re.compile(r"/dev/(nvme\d+)(?:c\d+)?(?:n(\d+))?(?:p\d+)?")


def controller_path(device: str) -> str:
    """``/dev/nvme0`` of ``/dev/nvme0n1`` or ``/dev/nvme0``. Raises ValueError for anything else."""
    match = NODE.fullmatch(device)
    if match is None:
        raise ValueError(f"{device} is no NVMe device; expected /dev/nvme0 or /dev/nvme0n1")
    return f"/dev/{match[1]}"


def namespace_id(device: str) -> int | None:
    """1 of ``/dev/nvme0n1``; None of ``/dev/nvme0``."""
    match = NODE.fullmatch(device)
    return int(match[2]) if match and match[2] else None


@dataclass(frozen=True)
class ListedNamespace:
    """One line of ``nvme list``. ``address`` (PCI) and ``transport`` are known only to the nested forms of the list."""

    path: str
    nsid: int
    model: str
    serial: str
    firmware: str
    size_bytes: int
    used_bytes: int
    sector_bytes: int
    address: str | None = None
    transport: str | None = None

    @property
    def controller(self) -> str:
        """The controller's node, which SMART and identify commands open."""
        return controller_path(self.path)


@dataclass(frozen=True)
class Controller:
    """Identify Controller, as far as nearkv uses it. Thresholds and capacity are None where the drive states none."""

    model: str
    serial: str
    firmware: str
    vendor_id: int
    controller_id: int
    version: str
    """Of the NVMe specification, such as 1.4.0."""
    subsystem: str
    namespaces: int
    """Most namespaces that the controller can have."""
    capacity_bytes: int | None
    max_transfer_bytes: int | None
    """Per command, for the usual minimum page of 4,096 bytes; None for no limit."""
    error_log_entries: int
    """Entries that the error log keeps."""
    warning_celsius: int | None
    critical_celsius: int | None
    can_format: bool
    format_covers_all: bool
    """Formatting one namespace formats every namespace of the controller."""
    volatile_write_cache: bool


@dataclass(frozen=True)
class LbaFormat:
    """A sector format that a namespace offers; ``performance`` 0 is best, 3 is worst."""

    index: int
    data_bytes: int
    metadata_bytes: int
    performance: int


@dataclass(frozen=True)
class Namespace:
    """Identify Namespace: sizes in sectors (blocks of ``lba_format``) and the formats on offer."""

    size_blocks: int
    capacity_blocks: int
    used_blocks: int
    lba_format: LbaFormat
    formats: tuple[LbaFormat, ...]
    nguid: str | None
    eui64: str | None

    @property
    def sector_bytes(self) -> int:
        """Data bytes of a sector."""
        return self.lba_format.data_bytes

    @property
    def size_bytes(self) -> int:
        """Size as software sees it."""
        return self.size_blocks * self.sector_bytes


@dataclass(frozen=True)
class SmartLog:
    """The SMART / health log page. Counters are since manufacture."""

    critical_warning: int
    temperature_celsius: int | None
    sensors_celsius: tuple[int | None, ...]
    available_spare_percent: int
    spare_threshold_percent: int
    percent_used: int
    """Of the rated endurance; may exceed 100."""
    bytes_read: int
    bytes_written: int
    """What hosts wrote, rounded up to 512,000 bytes by the drive; the flash wears by more (write amplification)."""
    read_commands: int
    write_commands: int
    busy_minutes: int
    power_cycles: int
    power_on_hours: int
    unsafe_shutdowns: int
    media_errors: int
    error_log_entries: int
    """Errors ever logged, not what the log still keeps."""
    warning_temperature_minutes: int
    critical_temperature_minutes: int
    throttle_light_count: int
    throttle_heavy_count: int
    throttle_light_seconds: int
    throttle_heavy_seconds: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """The critical warning in words; empty for a healthy drive."""
        return tuple(text for bit, text in enumerate(WARNINGS) if self.critical_warning >> bit & 1)


@dataclass(frozen=True)
class ErrorEntry:
    """One entry of the error log; ``status`` is the status field without the phase tag."""

    error_count: int
    queue: int
    command: int
    status: int
    location: int
    lba: int
    nsid: int


@dataclass(frozen=True)
class FirmwareLog:
    """Firmware slots: number to revision; ``next_slot`` is None unless another one starts at the next reset."""

    active_slot: int
    next_slot: int | None
    revisions: dict[int, str]


@dataclass(frozen=True)
class Health:
    """Wear and temperature of one drive against its own thresholds."""

    controller: Controller
    smart: SmartLog

    @property
    def throttle_margin_celsius(self) -> int | None:
        """Degrees left until the drive throttles; negative when it does, None without a sensor."""
        if self.smart.temperature_celsius is None:
            return None
        return (self.controller.warning_celsius or DEFAULT_WARNING_CELSIUS) - self.smart.temperature_celsius

    @property
    def complaints(self) -> tuple[str, ...]:
        """What a person should look at, one sentence each; empty for a healthy drive."""
        found = list(self.smart.warnings)
        margin = self.throttle_margin_celsius
        if margin is not None and margin <= 0:
            found.append(f"{self.smart.temperature_celsius} °C: at or above the threshold where the drive throttles")
        if self.smart.percent_used >= 100:
            found.append(f"{self.smart.percent_used} % of the rated endurance is used")
        if self.smart.media_errors:
            found.append(f"{self.smart.media_errors} media errors")
        return tuple(found)
