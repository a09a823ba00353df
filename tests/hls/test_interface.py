"""The HLS kernel's arguments, ports and registers are those of the register map."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
REGISTERS = json.loads((ROOT / "fpga/registers.json").read_text())
SOURCE = (ROOT / "hls/nearkv_kernel.cpp").read_text()
RECORDS = (ROOT / "hls/records.h").read_text()
TYPES = (ROOT / "hls/types.h").read_text()


def _arguments() -> list[tuple[str, bool]]:
    """Name and whether it is a pointer, in order."""
    found = re.search(r'extern "C" void nearkv_kernel\((.*?)\)', SOURCE, re.DOTALL)
    assert found is not None
    words = [argument.strip() for argument in found.group(1).split(",")]
    return [(w.split()[-1].lstrip("*"), "*" in w) for w in words]


def _pragmas(interface: str) -> list[dict[str, str]]:
    source = re.sub(r"\\\n\s*", "", SOURCE)  # continued lines
    lines = re.findall(rf"#pragma HLS INTERFACE {interface}\b([^\n]*)", source)
    return [dict(re.findall(r"(\w+) = (\w+)", line)) for line in lines]


def test_arguments_in_order() -> None:
    expected = [(a["name"], a["type"].endswith("*")) for a in REGISTERS["arguments"]]
    assert _arguments() == expected


def test_registers_as_vitis_lays_them_out() -> None:
    """Arguments start at 0x10; each takes its words and one more (contract of s_axilite)."""
    offset = 0x10
    for (name, pointer), argument in zip(_arguments(), REGISTERS["arguments"], strict=True):
        assert (name, offset) == (argument["name"], argument["offset"])
        offset += 12 if pointer else 8


def test_every_argument_is_a_register() -> None:
    ports = {p["port"] for p in _pragmas("s_axilite")}
    assert ports == {a["name"] for a in REGISTERS["arguments"]} | {"return"}
    assert {p["bundle"] for p in _pragmas("s_axilite")} == {"control"}


def test_memory_ports() -> None:
    bundles = {p["port"]: f"m_axi_{p['bundle']}" for p in _pragmas("m_axi")}
    assert bundles == {a["name"]: a["port"] for a in REGISTERS["arguments"] if a["type"].endswith("*")}
    assert {p["offset"] for p in _pragmas("m_axi")} == {"slave"}


def test_bursts() -> None:
    """Reads of whole pages, writes of at most a page, and enough reads under way."""
    words = {"max_read_burst_length": "read_burst", "max_write_burst_length": "write_burst"}
    for pragma in _pragmas("m_axi"):
        promised = REGISTERS["ports"][f"m_axi_{pragma['bundle']}"]
        found = {key: int(pragma[word]) for word, key in words.items() if word in pragma}
        assert found
        assert found == {key: promised[key] for key in found}
        if "read_outstanding" in promised:
            assert int(pragma["num_read_outstanding"]) >= promised["read_outstanding"]


def test_control_protocol() -> None:
    assert re.search(rf"#pragma HLS INTERFACE {REGISTERS['control_protocol']} port = return", SOURCE)


def test_status_codes() -> None:
    names = {"kOk": "OK", "kBits": "BITS", "kWidth": "WIDTH", "kGroup": "GROUP", "kMode": "MODE"}
    names |= {"kTopKRange": "TOP_K", "kBlocks": "BLOCKS", "kRuns": "RUNS", "kAddress": "ADDRESS"}
    found = re.search(r"enum Status[^{]*\{(.*?)\}", RECORDS, re.DOTALL)
    assert found is not None
    codes = dict(re.findall(r"(k\w+) = (\d+)", found.group(1)))
    assert {names[n]: int(v) for n, v in codes.items()} == {n: REGISTERS["status"][n] for n in names.values()}


def test_limits() -> None:
    values = dict(re.findall(r"constexpr \w+ (k\w+) = (\d+);", TYPES + RECORDS))
    limits = REGISTERS["limits"]
    assert int(values["kBeatBytes"]) == limits["beat_bytes"]
    assert int(values["kMaxGroup"]) == limits["max_group"]
    assert int(values["kMaxTopK"]) == limits["max_top_k"]
    assert int(values["kStoreRows"]) == limits["store_rows"]
    assert int(values["kHeads"]) == limits["heads_per_row"]
    assert int(values["kInterfaceVersion"]) == REGISTERS["interface_version"]
