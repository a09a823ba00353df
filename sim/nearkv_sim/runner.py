"""Builds and runs cocotb benches with Verilator."""

from __future__ import annotations

import os
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

FPGA = Path(__file__).resolve().parents[2] / "fpga"
BUILD = Path(os.environ.get("NEARKV_SIM_BUILD", FPGA.parent / "build" / "sim"))


@dataclass(frozen=True)
class Bench:
    """A cocotb module and the RTL module that it drives."""

    name: str
    top: str
    parameters: dict[str, int] = field(default_factory=dict)


def sources() -> list[Path]:
    """RTL sources in compilation order."""
    lines = (FPGA / "files.f").read_text().splitlines()
    return [FPGA / line for line in lines if line and not line.startswith("//")]
