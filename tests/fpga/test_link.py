"""The link configuration names the kernel, its arguments and memory that exist."""

from __future__ import annotations

import configparser
import json
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REGISTERS = json.loads((ROOT / "fpga/registers.json").read_text())
CONFIGS = sorted((ROOT / "fpga/link").glob("*.cfg"))


def _connectivity(path: Path) -> dict[str, list[str]]:
    """Values by key of a v++ configuration's connectivity section, where keys repeat."""
    values = defaultdict(list)
    section = ""
    for line in path.read_text().splitlines():
        text = line.split("#")[0].strip()
        if text.startswith("["):
            section = text
        elif text and section == "[connectivity]":
            key, value = text.split("=", 1)
            values[key].append(value)
    return values


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_connectivity(path: Path) -> None:
    connectivity = _connectivity(path)
    (instances,) = connectivity["nk"]
    kernel, count, names = instances.split(":")
    assert kernel == REGISTERS["kernel"]
    assert len(names.split(".")) == int(count)
    pointers = {a["name"] for a in REGISTERS["arguments"] if a["type"].endswith("*")}
    connected = defaultdict(set)
    banks = set()
    for value in connectivity["sp"]:
        port, bank = value.split(":")
        instance, argument = port.split(".")
        connected[instance].add(argument)
        banks.add(bank)
    assert connected == dict.fromkeys(names.split("."), pointers)
    assert len(banks) == 1, "P2P reads land in the bank that the kernel reads"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_sections_are_those_of_v_plus_plus(path: Path) -> None:
    parser = configparser.ConfigParser(strict=False, allow_no_value=False)
    parser.read(path)
    assert set(parser.sections()) <= {"connectivity", "vivado", "clock", "advanced", "hls", "profile"}
