"""From nvme-cli's JSON (1.x, 2.x flat, 2.11's nested) or a raw log page's fields to the types of model.py."""

from __future__ import annotations

import re

from nearkv_drivers.fields import Fields, OutputError, load, to_integer
from nearkv_drivers.nvme.model import (
    DATA_UNIT_BYTES,
    Controller,
    ErrorEntry,
    FirmwareLog,
    LbaFormat,
    ListedNamespace,
    Namespace,
    SmartLog,
    namespace_id,
)

KELVIN = 273
"""What the specification's whole Kelvins are less whole degrees Celsius, as every tool computes it."""

INHERITED = ("SerialNumber", "ModelNumber", "Firmware", "Address", "Transport")
GROUPS = ("Devices", "Subsystems", "Controllers", "Namespaces")
SLOT = re.compile(r"(?:Firmware Rev Slot |frs)(\d)$")


def _celsius(kelvin: int | None) -> int | None:
    return kelvin - KELVIN if kelvin else None


def listing(text: bytes | str) -> list[ListedNamespace]:
    """``nvme list -o json``: flat with DevicePath, or nested by subsystem and controller; sorted by path.

    Nothing printed means that there is no drive. Raises OutputError.
    """
    found: dict[str, ListedNamespace] = {}
    _collect(Fields(load(text, "nvme list"), "nvme list"), {}, found)
    return sorted(found.values(), key=lambda one: [int(part) for part in re.findall(r"\d+", one.path)])


def _collect(record: Fields, inherited: dict[str, str], found: dict[str, ListedNamespace]) -> None:
    """Walk down to the namespaces; what a controller says of itself holds for everything below it."""
    known = dict(inherited)
    controllers = record.records("Controllers")
    for source in (*controllers[:1], record):
        known |= {name: value for name in INHERITED if (value := source.text(name)) is not None}
    path = _path(record)
    if path is not None:
        found[path] = _listed(path, record, known)
        return
    for group in GROUPS:
        for child in record.records(group):
            _collect(child, known, found)


def _path(record: Fields) -> str | None:
    path = record.text("DevicePath")
    name = record.text("NameSpace", "Namespace")
    if path is None and name is not None and to_integer(name) is None:
        path = name if name.startswith("/dev/") else f"/dev/{name}"
    if path is not None and namespace_id(path) is None:
        raise OutputError(f"{record.source}: {path!r} is no NVMe namespace such as /dev/nvme0n1")
    return path


def _listed(path: str, record: Fields, known: dict[str, str]) -> ListedNamespace:
    sector = record.integer("SectorSize")
    size = record.optional("PhysicalSize")
    nsid = record.optional("NSID")
    if nsid is None and "DevicePath" in record:
        nsid = record.optional("NameSpace")
    return ListedNamespace(
        path=path,
        nsid=nsid if nsid is not None else namespace_id(path) or 0,
        model=known.get("ModelNumber", ""),
        serial=known.get("SerialNumber", ""),
        firmware=known.get("Firmware", ""),
        size_bytes=size if size is not None else record.integer("MaximumLBA") * sector,
        used_bytes=record.integer("UsedBytes"),
        sector_bytes=sector,
        address=known.get("Address") or None,
        transport=known.get("Transport") or None,
    )


def controller(fields: Fields) -> Controller:
    """Identify Controller from nvme-cli's field names. Raises OutputError."""
    version = fields.integer("ver")
    transfer = fields.integer("mdts", limit=255)
    return Controller(
        model=fields.text("mn") or "",
        serial=fields.text("sn") or "",
        firmware=fields.text("fr") or "",
        vendor_id=fields.integer("vid"),
        controller_id=fields.integer("cntlid"),
        version=f"{version >> 16}.{version >> 8 & 0xFF}.{version & 0xFF}",
        subsystem=fields.text("subnqn") or "",
        namespaces=fields.integer("nn"),
        capacity_bytes=fields.optional("tnvmcap") or None,
        max_transfer_bytes=4096 << transfer if transfer else None,
        error_log_entries=fields.integer("elpe") + 1,
        warning_celsius=_celsius(fields.optional("wctemp")),
        critical_celsius=_celsius(fields.optional("cctemp")),
        can_format=bool(fields.integer("oacs") & 2),
        format_covers_all=bool(fields.integer("fna") & 1),
        volatile_write_cache=bool(fields.integer("vwc") & 1),
    )


def namespace(fields: Fields) -> Namespace:
    """Identify Namespace from nvme-cli's field names. Raises OutputError."""
    records = fields.records("lbafs")
    formats = [_lba_format(index, record) for index, record in enumerate(records)]
    flbas = fields.integer("flbas", limit=255)
    index = flbas & 0xF
    if len(formats) > 16:
        index |= flbas >> 1 & 0x30
    if index >= len(formats):
        raise OutputError(f"{fields.source}: format {index} is in use, but lbafs lists {len(formats)}")
    return Namespace(
        size_blocks=fields.integer("nsze"),
        capacity_blocks=fields.integer("ncap"),
        used_blocks=fields.integer("nuse"),
        lba_format=formats[index],
        formats=tuple(one for one in formats if one.data_bytes > 1),
        nguid=_identifier(fields.text("nguid")),
        eui64=_identifier(fields.text("eui64")),
    )


def _lba_format(index: int, record: Fields) -> LbaFormat:
    return LbaFormat(
        index=index,
        data_bytes=1 << record.integer("ds", limit=63),
        metadata_bytes=record.integer("ms", limit=0xFFFF),
        performance=record.integer("rp", limit=3),
    )


def _identifier(text: str | None) -> str | None:
    return text if text and text.strip("0-") else None


def smart_log(fields: Fields) -> SmartLog:
    """The SMART log from nvme-cli's field names. Raises OutputError."""
    sensors = [fields.optional(f"temperature_sensor_{number}") for number in range(1, 9)]
    while sensors and not sensors[-1]:
        sensors.pop()
    return SmartLog(
        critical_warning=fields.integer("critical_warning", limit=255),
        temperature_celsius=_celsius(fields.integer("temperature", limit=0xFFFF)),
        sensors_celsius=tuple(_celsius(kelvin) for kelvin in sensors),
        available_spare_percent=fields.integer("avail_spare"),
        spare_threshold_percent=fields.integer("spare_thresh"),
        percent_used=fields.integer("percent_used"),
        bytes_read=fields.integer("data_units_read") * DATA_UNIT_BYTES,
        bytes_written=fields.integer("data_units_written") * DATA_UNIT_BYTES,
        read_commands=fields.integer("host_read_commands"),
        write_commands=fields.integer("host_write_commands"),
        busy_minutes=fields.integer("controller_busy_time"),
        power_cycles=fields.integer("power_cycles"),
        power_on_hours=fields.integer("power_on_hours"),
        unsafe_shutdowns=fields.integer("unsafe_shutdowns"),
        media_errors=fields.integer("media_errors"),
        error_log_entries=fields.integer("num_err_log_entries"),
        warning_temperature_minutes=fields.optional("warning_temp_time") or 0,
        critical_temperature_minutes=fields.optional("critical_comp_time") or 0,
        throttle_light_count=fields.optional("thm_temp1_trans_count") or 0,
        throttle_heavy_count=fields.optional("thm_temp2_trans_count") or 0,
        throttle_light_seconds=fields.optional("thm_temp1_total_time") or 0,
        throttle_heavy_seconds=fields.optional("thm_temp2_total_time") or 0,
    )


def error_log(fields: Fields) -> list[ErrorEntry]:
    """The error log's entries, newest first; slots that never held an error are left out. Raises OutputError."""
    entries = [_error_entry(record) for record in fields.records("errors")]
    return [entry for entry in entries if entry.error_count]


def _error_entry(record: Fields) -> ErrorEntry:
    # Versions that print the phase tag have shifted it out of the status; older ones print the raw word.
    status = record.integer("status_field", limit=0xFFFF)
    return ErrorEntry(
        error_count=record.integer("error_count"),
        queue=record.integer("sqid"),
        command=record.integer("cmdid"),
        status=status if "phase_tag" in record else status >> 1,
        location=record.integer("parm_error_location"),
        lba=record.integer("lba"),
        nsid=record.integer("nsid"),
    )


def firmware_log(fields: Fields) -> FirmwareLog:
    """The firmware log, which nvme-cli wraps in an object named after the device. Raises OutputError."""
    afi = fields.integer("Active Firmware Slot (afi)", "afi", limit=255)
    revisions = {int(match[1]): _revision(fields.text(name) or "") for name in fields.names()
                 if (match := SLOT.match(name))}  # fmt: skip
    return FirmwareLog(active_slot=afi & 7, next_slot=(afi >> 4 & 7) or None, revisions=revisions)


def _revision(text: str) -> str:
    """``1.0`` of ``2314885530819505713 (1.0.....)``: the number is the eight characters, the rest may be altered."""
    number, space, _ = text.partition(" (")
    if space and number.isdigit() and int(number) < 1 << 64:
        return int(number).to_bytes(8, "little").decode("ascii", errors="replace").strip(" \0")
    return text
