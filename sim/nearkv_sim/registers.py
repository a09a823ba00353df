"""The register map and status codes, read from ``fpga/registers.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FPGA = Path(__file__).resolve().parents[2] / "fpga"
"""The folder of the RTL."""

DOCUMENT: dict[str, Any] = json.loads((FPGA / "registers.json").read_text())

REGISTERS: dict[str, int] = {entry["name"]: entry["offset"] for entry in DOCUMENT["registers"]}
"""Offset of each register by name."""

ARGUMENT_OFFSETS: dict[str, int] = {entry["name"]: entry["offset"] for entry in DOCUMENT["arguments"]}
"""Offset of each argument by name."""

STATUS: dict[str, int] = DOCUMENT["status"]
"""Status codes by name."""
