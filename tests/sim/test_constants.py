"""registers.json, the SystemVerilog package and the register module say the same."""

from __future__ import annotations

import re

import numpy as np

from nearkv_drivers.hardware import hardware_root
from nearkv_drivers.kernel_memory import COMPLETION_DTYPE, REQUEST_DTYPE, RUN_DTYPE
from nearkv_drivers.wire import BLOCK_TOKENS, EMPTY, MAX_GROUP, MAX_TOP_K
from nearkv_sim.registers import DOCUMENT, REGISTERS, STATUS

FPGA = hardware_root() / "fpga"
PACKAGE = (FPGA / "rtl" / "nearkv_pkg.sv").read_text()
NUMPY = {"u64": "<u8", "u32": "<u4", "u8": "u1", "u16": "<u2", "i32": "<i4"}


def parameter(name: str) -> int:
    match = re.search(rf"localparam [\w \[\]:]*\b{name} = (?:\d+'[hd])?([0-9a-fA-F_]+);", PACKAGE)
    assert match, f"{name} is not in nearkv_pkg.sv"
    text = match[1].replace("_", "")
    return int(text, 16) if f"{name} = 32'h" in PACKAGE else int(text)


def test_limits() -> None:
    limits = DOCUMENT["limits"]
    assert parameter("DEFAULT_STORE_ROWS") == limits["store_rows"]
    assert parameter("HEADS") == limits["heads_per_row"]
    assert parameter("MAX_GROUP") == limits["max_group"] == MAX_GROUP
    assert parameter("MAX_TOP_K") == limits["max_top_k"] == MAX_TOP_K
    assert parameter("BLOCK_TOKENS") == BLOCK_TOKENS
    assert parameter("BEAT_BITS") == 8 * limits["beat_bytes"]
    assert parameter("EMPTY") == EMPTY % 2**32


def test_bursts() -> None:
    """A page is the longest burst, and the key FIFO has room for the reads that the register map promises."""
    keys = DOCUMENT["ports"]["m_axi_keys"]
    assert keys["read_burst"] * DOCUMENT["limits"]["beat_bytes"] == parameter("PAGE_BYTES")
    assert keys["read_outstanding"] * keys["read_burst"] <= parameter("KEY_FIFO_BEATS")


def test_status_codes() -> None:
    codes = {name: int(code) for name, code in re.findall(r"ST_(\w+)\s*= 4'd(\d+)", PACKAGE)}
    assert codes == STATUS


def test_register_offsets() -> None:
    control = (FPGA / "rtl" / "nkv_control.sv").read_text()
    offsets = {name.lower(): int(value, 16) for name, value in re.findall(r"(\w+) = 12'h([0-9a-f]{3})", control)}
    arguments = {entry["name"]: entry["offset"] for entry in DOCUMENT["arguments"]}
    assert offsets == REGISTERS | arguments


def test_records() -> None:
    for name, dtype in (("request", REQUEST_DTYPE), ("descriptor", RUN_DTYPE), ("completion", COMPLETION_DTYPE)):
        assert dtype.fields is not None
        declared = {}
        for field, offset, kind in DOCUMENT["records"][name]["fields"]:
            base, _, count = kind.partition("[")
            shape = (int(count.rstrip("]")),) if count else ()
            declared[field] = (np.dtype((NUMPY[base], shape)), offset)
        assert {field: (value[0], value[1]) for field, value in dtype.fields.items()} == declared, name
