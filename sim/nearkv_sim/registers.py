"""The register map and status codes, read from ``fpga/registers.json``."""

from __future__ import annotations

from typing import Any

from nearkv_drivers.hardware import kernel_interface

DOCUMENT: dict[str, Any] = kernel_interface()

REGISTERS: dict[str, int] = {entry["name"]: entry["offset"] for entry in DOCUMENT["registers"]}
"""Offset of each register by name."""

ARGUMENT_OFFSETS: dict[str, int] = {entry["name"]: entry["offset"] for entry in DOCUMENT["arguments"]}
"""Offset of each argument by name."""

STATUS: dict[str, int] = DOCUMENT["status"]
"""Status codes by name."""
