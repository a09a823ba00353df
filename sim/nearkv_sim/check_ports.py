"""``nearkv sim check-ports``: a Verilog kernel's ports, AXI parameters and registers beside the driver's own.

Reads our kernel, what Vitis HLS writes, and Verilog that another tool made of either.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearkv_sim.check_ports_expected import Expected, Interface, interfaces, least_address_width, plain_ports
from nearkv_sim.check_ports_registers import RegisterMap, find_registers, register_differences
from nearkv_sim.check_ports_verilog import Library, Module, Port, VerilogError
from nearkv_sim.registers import DOCUMENT


@dataclass(frozen=True)
class Difference:
    """One thing that is not as the driver wants it."""

    thing: str
    expected: str
    found: str
    stops: bool = True
    """Whether a simulation has to stop at it: names, identifiers, bursts and ports left open do not stop one."""

    def __str__(self) -> str:
        return f"{self.thing}: expected {self.expected}, found {self.found}"


@dataclass
class Report:
    """What a check found. ``not_checked`` says what the files do not tell, and what would."""

    top: Module
    differences: list[Difference] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    def lines(self) -> list[str]:
        """The report for a person: differences first, one a line."""
        verdict = "as the driver wants it" if self.passed else f"{len(self.differences)} differences"
        return [
            *map(str, self.differences),
            *(f"not checked: {text}" for text in self.not_checked),
            f"{self.top.name} ({self.top.path}): {', '.join(self.checked)}: {verdict}",
        ]

    def document(self) -> dict[str, Any]:
        """The report for a program."""
        differences = [{"thing": one.thing, "expected": one.expected, "found": one.found} for one in self.differences]
        return {
            "top": self.top.name, "file": str(self.top.path), "passed": self.passed, "checked": self.checked,
            "differences": differences, "not_checked": self.not_checked,
        }  # fmt: skip


def sources(paths: Sequence[Path]) -> list[Path]:
    """Files of ``paths``, every .v and .sv of a folder. VerilogError where there is none."""
    files = [
        file
        for path in paths
        for file in (sorted(p for p in path.iterdir() if p.suffix in (".v", ".sv")) if path.is_dir() else [path])
    ]
    if not files:
        raise VerilogError(f"{', '.join(map(str, paths))} holds no .v or .sv file")
    return files


def check(paths: Sequence[Path], document: Mapping[str, Any] = DOCUMENT) -> Report:
    """Compare the kernel in ``paths`` (files or folders; files beside them are found by module name) with ``document``.

    Raises VerilogError where they cannot be read, ModuleNotFoundError where pyverilog is missing.
    """
    library = Library(sources(paths))
    top = library.top(document["kernel"])
    report = Report(top)
    if top.name != document["kernel"]:
        report.differences.append(Difference("top module", document["kernel"], top.name, stops=False))
    below = list(library.below(top))
    known = interfaces(document)
    wrong = list(_parameters(top, known, document))
    report.differences += [Difference(name, *pair, stops=not name.endswith("_ID_WIDTH")) for name, pair in wrong]
    report.differences += _ports(top, known, {name for name, _ in wrong})
    report.checked.append(f"{len(top.ports)} ports")
    bursts = [line for module in (top, *below) for line in _bursts(module, library, known)]
    report.differences += [difference for _, difference in bursts if difference]
    if bursts:
        report.checked.append(f"{len(bursts)} burst parameters")
    else:
        report.not_checked.append("burst lengths (no AXI master with burst parameters in these files)")
    _registers(report, library, find_registers(top, below), document)
    return report


# ---- parameters ----------------------------------------------------------------------------------


def _parameters(
    top: Module, known: Sequence[Interface], document: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Vitis HLS's width parameters of the top that differ: name, (expected, found)."""
    for interface in known:
        for key, name in (("data_width", "DATA_WIDTH"), ("address_width", "ADDR_WIDTH"), ("id_width", "ID_WIDTH")):
            parameter = f"C_{interface.name.upper()}_{name}"
            found = top.constants.get(parameter)
            if found is None or key not in interface.description:
                continue
            most = interface.description[key]
            least = most if interface.master or key == "data_width" else least_address_width(document)
            if not least <= found <= most:
                wanted = str(most) if least == most else f"{least} to {most}"
                yield parameter, (wanted, str(found))


_BURSTS = {
    "MAX_READ_BURST_LENGTH": "read_burst", "MAX_WRITE_BURST_LENGTH": "write_burst",
    "NUM_READ_OUTSTANDING": "read_outstanding",
}  # fmt: skip
"""Parameters of Vitis HLS's AXI masters, and what the register map calls them."""

_OUR_MASTERS = {
    "key_reader": ("keys", "read_burst"), "command_reader": ("gmem", "read_burst"), "writer": ("gmem", "write_burst")
}  # fmt: skip
"""Our masters by instance name; each has a parameter MAX_BURST."""


def _bursts(module: Module, library: Library, known: Sequence[Interface]) -> Iterator[tuple[str, Difference | None]]:
    """Each burst parameter of the masters that ``module`` instantiates, with its difference if it has one."""
    for instance in module.instances:
        values = dict(instance.parameters)
        if instance.name in _OUR_MASTERS:
            bundle, key = _OUR_MASTERS[instance.name]
            inside = library.find(instance.module)
            found = values.get("MAX_BURST", inside.constants.get("MAX_BURST") if inside else None)
            entries = [("MAX_BURST", bundle, key, found)]
        else:
            entries = [
                (name, interface.bundle, key, values.get(name))
                for interface in known if instance.module.endswith(f"_{interface.bundle}_m_axi")
                for name, key in _BURSTS.items()
            ]  # fmt: skip
        for name, bundle, key, found in entries:
            description = next(i.description for i in known if i.bundle == bundle and i.master)
            if found is not None and key in description:
                yield name, _burst(f"{name} of m_axi_{bundle} ({instance.name})", key, description[key], found)


def _burst(thing: str, key: str, wanted: int, found: int) -> Difference | None:
    """Reads take whole pages; writes may be shorter; more reads may be outstanding."""
    right, word = {
        "read_burst": (found == wanted, ""),
        "write_burst": (0 < found <= wanted, "at most "),
        "read_outstanding": (found >= wanted, "at least "),
    }[key]
    return None if right else Difference(thing, f"{word}{wanted}", str(found), stops=False)


# ---- ports ---------------------------------------------------------------------------------------


def _ports(top: Module, known: Sequence[Interface], wrong: set[str]) -> Iterator[Difference]:
    """Ports that are missing, extra, or of another direction or width, except widths that follow from ``wrong``."""
    found = {name.lower(): port for name, port in top.ports.items()}
    strange_reset = next((name for name in found if re.search(r"rst|reset", name)), None)
    for expected in plain_ports():
        if expected.name == "ap_rst_n" and "ap_rst_n" not in found and strange_reset:
            port = found.pop(strange_reset)
            yield Difference("reset", "input ap_rst_n (active low)", f"{port} {port.name}")
        else:
            yield from _port(expected, found.pop(expected.name) if expected.name in found else None)
    for interface in known:
        mine = {name: found.pop(name) for name in list(found) if name.startswith(f"{interface.name}_")}
        if mine:
            names = {expected.name for expected in interface.ports}
            yield from interface_ports(interface, mine, wrong)
            yield from (_stranger(f"port {p.name}", str(p)) for name, p in mine.items() if name not in names)
        else:
            there = {match[0] for name in found if (match := re.match(r"[sm]_axi_[^_]+", name))}
            others = ", ".join(sorted(there - {one.name for one in known})) or "no other AXI"
            yield Difference(f"interface {interface.name}", "its ports", f"none ({others})", stops=not interface.master)
    yield from _strangers(found)


def interface_ports(
    interface: Interface, mine: Mapping[str, Port], wrong: Collection[str] = ()
) -> Iterator[Difference]:
    """What differs in one interface, whose ports are ``mine`` by the names that we use."""
    data = f"C_{interface.name.upper()}_DATA_WIDTH"
    for expected in interface.ports:
        port = mine.get(expected.name)
        names = port.parameters if port else frozenset()
        follows = not names.isdisjoint(wrong) or (data in wrong and expected.name.endswith("strb"))
        yield from _port(expected, port, widths=not follows)


def _port(expected: Expected, port: Port | None, *, widths: bool = True) -> Iterator[Difference]:
    if port is None:
        if expected.required:
            yield Difference(f"port {expected.name}", str(expected), "none")
    elif port.direction != expected.direction:
        yield Difference(f"direction of port {port.name}", expected.direction, port.direction)
    elif widths and expected.widths and port.width not in expected.widths:
        sizes = expected.widths
        wanted = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 2 else " or ".join(map(str, sizes))
        yield Difference(f"width of port {port.name}", wanted, str(port.width or "one that is not constant"))


def _strangers(found: Mapping[str, Port]) -> Iterator[Difference]:
    """Ports that no driver knows: an interface at a time, others one by one."""
    by_interface: dict[str, int] = {}
    for name, port in found.items():
        interface = re.match(r"[sm]_axi[a-z]*_[^_]+(?=_)", name)
        if interface:
            by_interface[interface[0]] = by_interface.get(interface[0], 0) + 1
        else:
            yield _stranger(f"port {port.name}", str(port))
    for interface_name, count in by_interface.items():
        yield _stranger(f"interface {interface_name}", f"{count} ports")


def _stranger(thing: str, found: str) -> Difference:
    return Difference(thing, "none", found, stops=False)


# ---- registers -----------------------------------------------------------------------------------


def _registers(report: Report, library: Library, found: RegisterMap | None, document: Mapping[str, Any]) -> None:
    if found is not None:
        report.differences += [Difference(*three) for three in register_differences(found, document)]
        report.checked.append(f"{len(found.offsets)} registers in {found.module.name}")
        return
    slaves = [instance.module for instance in report.top.instances if instance.module.endswith("_s_axi")]
    absent = [name for name in slaves if library.find(name) is None]
    if absent:
        report.differences.append(
            Difference("control registers", f"the module {absent[0]}", "no file that holds it: name it too")
        )
        return
    unread = f"; {next(iter(library.unread.values()))}" if library.unread else ""
    report.not_checked.append(
        f"control registers (no ADDR_… constants in these files{unread}): run the kernel's bench on it"
    )
