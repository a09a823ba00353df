"""Raw log pages and identify structures to nvme-cli's field names: the same in every version, and all SPDK gives.

Offsets are those of the NVM Express base specification 2.0 (figures 207, 205, 208 and 275).
"""

from __future__ import annotations

from typing import Any

from nearkv_drivers.fields import Fields, OutputError

SMART_PAGE, ERROR_PAGE = 2, 1
"""Log page identifiers."""

SMART_BYTES, ERROR_ENTRY_BYTES, IDENTIFY_BYTES = 512, 64, 4096

SMART = {
    "critical_warning": (0, 1), "temperature": (1, 2), "avail_spare": (3, 1), "spare_thresh": (4, 1),
    "percent_used": (5, 1), "data_units_read": (32, 16), "data_units_written": (48, 16),
    "host_read_commands": (64, 16), "host_write_commands": (80, 16), "controller_busy_time": (96, 16),
    "power_cycles": (112, 16), "power_on_hours": (128, 16), "unsafe_shutdowns": (144, 16),
    "media_errors": (160, 16), "num_err_log_entries": (176, 16), "warning_temp_time": (192, 4),
    "critical_comp_time": (196, 4), "thm_temp1_trans_count": (216, 4), "thm_temp2_trans_count": (220, 4),
    "thm_temp1_total_time": (224, 4), "thm_temp2_total_time": (228, 4),
} | {f"temperature_sensor_{number}": (198 + 2 * number, 2) for number in range(1, 9)}  # fmt: skip
"""Field: (offset, bytes); everything is little endian."""

ERROR = {
    "error_count": (0, 8), "sqid": (8, 2), "cmdid": (10, 2), "status_field": (12, 2), "parm_error_location": (14, 2),
    "lba": (16, 8), "nsid": (24, 4),
}  # fmt: skip

CONTROLLER = {
    "vid": (0, 2), "mdts": (77, 1), "cntlid": (78, 2), "ver": (80, 4), "oacs": (256, 2), "elpe": (262, 1),
    "wctemp": (266, 2), "cctemp": (268, 2), "tnvmcap": (280, 16), "nn": (516, 4), "fna": (524, 1), "vwc": (525, 1),
}  # fmt: skip

CONTROLLER_TEXT = {"sn": (4, 20), "mn": (24, 40), "fr": (64, 8), "subnqn": (768, 256)}


def _numbers(page: bytes, layout: dict[str, tuple[int, int]]) -> dict[str, Any]:
    return {name: int.from_bytes(page[at : at + size], "little") for name, (at, size) in layout.items()}


def _sized(page: bytes, size: int, source: str) -> bytes:
    if len(page) < size:
        raise OutputError(f"{source}: {len(page)} bytes where the page has {size}")
    return page


def smart_fields(page: bytes) -> Fields:
    """The SMART log page (512 bytes). Raises OutputError for a short one."""
    return Fields(_numbers(_sized(page, SMART_BYTES, "SMART log page"), SMART), "SMART log page")


def error_fields(page: bytes) -> Fields:
    """The error log page, whole entries of 64 bytes. Raises OutputError for a part of one."""
    if len(page) % ERROR_ENTRY_BYTES:
        raise OutputError(f"error log page: {len(page)} bytes are no whole entries of {ERROR_ENTRY_BYTES}")
    entries = [page[at : at + ERROR_ENTRY_BYTES] for at in range(0, len(page), ERROR_ENTRY_BYTES)]
    return Fields({"errors": [_numbers(entry, ERROR) for entry in entries]}, "error log page")


def controller_fields(page: bytes) -> Fields:
    """The Identify Controller structure (4,096 bytes). Raises OutputError for a short one."""
    page = _sized(page, IDENTIFY_BYTES, "Identify Controller")
    text = {name: page[at : at + size].decode("ascii", errors="replace").strip(" \0")
            for name, (at, size) in CONTROLLER_TEXT.items()}  # fmt: skip
    return Fields(_numbers(page, CONTROLLER) | text, "Identify Controller")
