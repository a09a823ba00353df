"""Longest chains of LUTs between registers in a mapped RTLIL netlist, module by module."""

from __future__ import annotations

import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter

_MODULE = re.compile(r"^module \\(\S+)\n(.*?)^end\n", re.DOTALL | re.MULTILINE)
_CELL = re.compile(r"^  cell (\S+) (\S+)\n(.*?)^  end\n", re.DOTALL | re.MULTILINE)
_PORT = re.compile(r"^    connect \\(\S+) (.*)$", re.MULTILINE)
_ALIAS = re.compile(r"^  connect (.*)$", re.MULTILINE)
_WIRE = re.compile(r"^  wire (?:.*?)(?:width (\d+) )?(?:.*?)(\S+)$", re.MULTILINE)
_BIT = re.compile(r"(\d+)'([01xz]+)|([\\$]\S+)(?: \[(\d+)(?::(\d+))?\])?")

LOGIC = re.compile(r"\\(LUT[1-6]|MUXF[789]|CARRY[48]|INV)")
_OUTPUTS = frozenset({"O", "CO"})
_LEVEL = re.compile(r"\\LUT[1-6]|\\CARRY[48]")


def longest_levels(netlist: str) -> dict[str, int]:
    """Module names and their longest chain in LUTs and carry chains, longest first.

    A chain ends at a register, a memory, a DSP or the module's border, so that what continues through a port counts in
    two parts.
    """
    depths = {found[1]: _module_depth(found[2]) for found in _MODULE.finditer(netlist)}
    return dict(sorted(depths.items(), key=lambda item: -item[1]))


def _bits(signal: str, widths: dict[str, int]) -> list[tuple[str, int]]:
    """Bits of a signal expression, lowest first; constants are left out."""
    bits: list[tuple[str, int]] = []
    for constant, value, name, high, low in _BIT.findall(signal):
        if constant:
            bits = [("", 0)] * len(value) + bits
        elif high:
            first = int(low) if low else int(high)
            bits = [(name, i) for i in range(first, int(high) + 1)] + bits
        else:
            bits = [(name, i) for i in range(widths.get(name, 1))] + bits
    return bits


def _module_depth(body: str) -> int:
    widths = {name: int(width) if width else 1 for width, name in _WIRE.findall(body)}
    driver: dict[tuple[str, int], str] = {}
    inputs: dict[str, list[tuple[str, int]]] = defaultdict(list)
    weight: dict[str, int] = {}
    for kind, name, ports in _CELL.findall(body):
        if LOGIC.fullmatch(kind):
            weight[name] = int(bool(_LEVEL.fullmatch(kind)))
            for port, signal in _PORT.findall(ports):
                bits = _bits(signal, widths)
                if port in _OUTPUTS:
                    driver.update(dict.fromkeys(bits, name))
                else:
                    inputs[name] += bits
    alias = _aliases(body, widths)
    graph = {
        name: {driver[bit] for bit in (alias.get(bit, bit) for bit in inputs[name]) if bit in driver} - {name}
        for name in weight
    }
    depth: dict[str, int] = {}
    try:
        for name in TopologicalSorter(graph).static_order():
            depth[name] = weight[name] + max((depth[before] for before in graph[name]), default=0)
    except CycleError as error:
        raise ValueError(f"the netlist has a combinational loop: {error.args[1]}") from error
    return max(depth.values(), default=0)


def _aliases(body: str, widths: dict[str, int]) -> dict[tuple[str, int], tuple[str, int]]:
    """Bits that are other names of a bit, from the module's own connections."""
    alias: dict[tuple[str, int], tuple[str, int]] = {}
    for line in _ALIAS.findall(body):
        left, right = _two_signals(line)
        alias.update(zip(_bits(left, widths), _bits(right, widths), strict=False))
    resolved = {}
    for bit in alias:
        end = bit
        while end in alias and alias[end] != end:
            end = alias[end]
        resolved[bit] = end
    return resolved


def _two_signals(line: str) -> tuple[str, str]:
    """The two signals of a connect statement."""
    if line.startswith("{"):
        end = line.index("}") + 1
        return line[:end], line[end:]
    found = re.match(r"\S+(?: \[\d+(?::\d+)?\])?", line)
    assert found is not None
    return found[0], line[found.end() :]
