"""The control registers that a kernel's Verilog declares, beside the register map."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearkv_sim.check_ports_verilog import Module

_VITIS_FIXED = {"ADDR_AP_CTRL": "control", "ADDR_GIE": "gie", "ADDR_IER": "ier", "ADDR_ISR": "isr"}
_VITIS_ARGUMENT = re.compile(r"ADDR_(\w+)_DATA_(\d+)")


@dataclass(frozen=True)
class RegisterMap:
    """Offsets by (register or argument, 32-bit word of it), as ``module`` declares them.

    ``high_words``: whether a pointer's upper word is declared, or follows from the lower one's.
    """

    module: Module
    offsets: Mapping[tuple[str, int], int]
    high_words: bool


def find_registers(top: Module, below: Sequence[Module]) -> RegisterMap | None:
    """The register map in the first module that declares one, in Vitis HLS's names or in ours; None where none does."""
    for module in (top, *below):
        vitis = dict(_vitis(module.constants))
        if vitis:
            return RegisterMap(module, vitis, True)
        ours = {(name.lower(), 0): value for name, value in module.constants.items()}
        if {("control", 0), ("gie", 0), ("ier", 0), ("isr", 0)} <= set(ours):
            return RegisterMap(module, ours, False)
    return None


def _vitis(constants: Mapping[str, int]) -> Iterator[tuple[tuple[str, int], int]]:
    for name, value in constants.items():
        if name in _VITIS_FIXED:
            yield (_VITIS_FIXED[name], 0), value
        elif found := _VITIS_ARGUMENT.fullmatch(name):
            yield (found[1].lower(), int(found[2])), value


def register_differences(found: RegisterMap, document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(thing, expected, found) for each register that is missing, elsewhere, or unknown to the driver."""
    expected = {(entry["name"], 0): entry["offset"] for entry in document["registers"]}
    optional = {(e["name"], 0) for e in document["registers"] if e["description"].startswith("RTL only")}
    for argument in document["arguments"]:
        words = argument["size"] // 4 if found.high_words else 1
        expected |= {(argument["name"], word): argument["offset"] + 4 * word for word in range(words)}
    for key, offset in expected.items():
        if key not in found.offsets:
            if key not in optional:
                yield _thing(key, document), f"{offset:#04x}", "none"
        elif found.offsets[key] != offset:
            yield _thing(key, document), f"{offset:#04x}", f"{found.offsets[key]:#04x}"
    for key in (key for key in found.offsets if key not in expected):
        yield _thing(key, document), "none", f"{found.offsets[key]:#04x}"
    ports = found.module.ports
    if document["control_protocol"] == "ap_ctrl_chain" and "ap_start" in ports and "ap_continue" not in ports:
        yield "block control", "ap_ctrl_chain", f"ap_ctrl_hs (no ap_continue in {found.module.name})"


def _thing(key: tuple[str, int], document: Mapping[str, Any]) -> str:
    name, word = key
    pointer = any(argument["name"] == name and argument["size"] == 8 for argument in document["arguments"])
    half = (", low word", ", high word")[word] if pointer and word < 2 else f", word {word}" if word else ""
    return f"register {name}{half}"
