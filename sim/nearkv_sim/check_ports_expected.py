"""What a kernel's top must show, from ``fpga/registers.json`` and the AXI specification's signal lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Width = int | str
"""Bits, or the name of a width of the interface: ``data``, ``bytes``, ``address``, ``id`` (any: not checked)."""

_ADDRESS: tuple[tuple[str, Width, bool], ...] = (
    ("valid", 1, True), ("addr", "address", True), ("len", 8, True), ("size", 3, True), ("burst", 2, True),
    ("id", "id", False), ("lock", "lock", False), ("cache", 4, False), ("prot", 3, False), ("qos", 4, False),
    ("region", 4, False), ("user", "any", False),
)  # fmt: skip
"""Signals of an AXI4 address channel that the master drives: name, width, whether the kernel needs it."""

_FROM_MASTER: dict[str, tuple[tuple[str, Width, bool], ...]] = {
    "ar": _ADDRESS,
    "r": (("ready", 1, True),),
    "aw": _ADDRESS,
    "w": (("valid", 1, True), ("data", "data", True), ("strb", "bytes", True), ("last", 1, True), ("id", "id", False),
          ("user", "any", False)),
    "b": (("ready", 1, True),),
}  # fmt: skip
_TO_MASTER: dict[str, tuple[tuple[str, Width, bool], ...]] = {
    "ar": (("ready", 1, True),),
    "r": (("valid", 1, True), ("data", "data", True), ("resp", 2, True), ("last", 1, True), ("id", "id", False),
          ("user", "any", False)),
    "aw": (("ready", 1, True),),
    "w": (("ready", 1, True),),
    "b": (("valid", 1, True), ("resp", 2, True), ("id", "id", False), ("user", "any", False)),
}  # fmt: skip
_LITE = {"valid", "ready", "addr", "data", "strb", "resp", "prot"}
"""What AXI4-Lite has of these."""

LOCK_WIDTHS = (1, 2)
"""AXI4 has one bit; Vitis HLS writes AXI3's two, of which the upper one is always 0."""


@dataclass(frozen=True)
class Expected:
    """A port: ``widths`` that are right (empty: any), and whether a kernel may leave it out."""

    name: str
    direction: str
    widths: tuple[int, ...]
    required: bool

    def __str__(self) -> str:
        sizes = " or ".join(f"[{width - 1}:0]" if width > 1 else "1 bit" for width in self.widths)
        return f"{self.direction} {'' if self.widths == (1,) else sizes}".strip()


@dataclass(frozen=True)
class Interface:
    """One AXI interface of the kernel. ``channels`` that it need not have are optional as a whole."""

    name: str
    description: Mapping[str, Any]
    ports: tuple[Expected, ...]

    @property
    def master(self) -> bool:
        """Whether the kernel drives addresses."""
        return bool(self.description["mode"] == "master")

    @property
    def bundle(self) -> str:
        """The name without ``m_axi_`` or ``s_axi_``."""
        return self.name.split("_", 2)[2]


def interfaces(document: Mapping[str, Any]) -> list[Interface]:
    """The AXI interfaces of the register map's ``ports``."""
    return [
        Interface(name, description, tuple(_ports(name, description, document)))
        for name, description in document["ports"].items()
    ]


def plain_ports() -> list[Expected]:
    """Clock, reset and interrupt."""
    return [
        Expected("ap_clk", "input", (1,), True),
        Expected("ap_rst_n", "input", (1,), True),
        Expected("interrupt", "output", (1,), True),
    ]


def least_address_width(document: Mapping[str, Any]) -> int:
    """Bits with which the last argument's last word can be addressed."""
    last = max(argument["offset"] + argument["size"] for argument in document["arguments"]) - 1
    return int(last).bit_length()


def _ports(name: str, description: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[Expected]:
    master = description["mode"] == "master"
    widths: dict[str, tuple[int, ...]] = {
        "data": (description["data_width"],), "bytes": (description["data_width"] // 8,),
        "address": (description["address_width"],) if master
        else tuple(range(least_address_width(document), description["address_width"] + 1)),
        "id": (description.get("id_width", 1),), "lock": LOCK_WIDTHS, "any": (),
    }  # fmt: skip
    writes = not master or "write" in description["channels"]
    for signals, direction in ((_FROM_MASTER, "output"), (_TO_MASTER, "input")):
        way = direction if master else {"output": "input", "input": "output"}[direction]
        for channel, entries in signals.items():
            for signal, width, required in entries:
                if master or signal in _LITE:
                    needed = required and (writes or channel in ("ar", "r"))
                    sizes = (width,) if isinstance(width, int) else widths[width]
                    yield Expected(f"{name}_{channel}{signal}", way, sizes, needed)
