"""Where the kernel's hardware sources lie: in a checkout, or inside the installed package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nearkv_drivers.device import DeviceError


def hardware_root() -> Path:
    """The folder that holds ``fpga`` (RTL, register map) and ``sim`` (C++ of the Verilated kernel).

    Raises DeviceError where an installation lacks them.
    """
    here = Path(__file__).resolve().parent
    for root in (here.parents[1], here / "hardware"):
        if (root / "fpga" / "files.f").is_file() and (root / "sim" / "verilated").is_dir():
            return root
    raise DeviceError(f"{here} holds no RTL of the score kernel: reinstall nearkv")


def rtl_sources() -> list[Path]:
    """The kernel's SystemVerilog and Verilog files in compilation order."""
    fpga = hardware_root() / "fpga"
    lines = (fpga / "files.f").read_text(encoding="utf-8").splitlines()
    return [fpga / line for line in lines if line and not line.startswith("//")]


def kernel_interface() -> dict[str, Any]:
    """Registers, records, limits and status codes of the kernel: ``fpga/registers.json``."""
    document: dict[str, Any] = json.loads((hardware_root() / "fpga" / "registers.json").read_text(encoding="utf-8"))
    return document
