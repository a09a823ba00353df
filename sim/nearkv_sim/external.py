"""Puts a kernel of another tool's making under our bench: a wrapper with our port names around its top.

What the bench needs of it: AXI-Lite registers where ``fpga/registers.json`` says, one or more AXI4 masters of the right
widths (their bundles may be called anything), ``ap_clk``, ``ap_rst_n`` and ``interrupt``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkv_sim.check_ports import Difference, check, interface_ports, sources
from nearkv_sim.check_ports_expected import Expected, Interface, interfaces, plain_ports
from nearkv_sim.check_ports_verilog import Library, Module, Port, VerilogError
from nearkv_sim.registers import DOCUMENT

WRAPPER = "nearkv_kernel_wrapper"


@dataclass(frozen=True)
class External:
    """Files to build with ``WRAPPER`` on top, and the folders where they look for what they include or read."""

    files: tuple[Path, ...]
    folders: tuple[Path, ...]


def wrap(paths: Sequence[Path], folder: Path) -> External:
    """Write the wrapper around the kernel in ``paths`` (files or folders) into ``folder``.

    VerilogError, one difference a line, where the kernel lacks something that the bench needs.
    """
    library = Library(sources(paths))
    top = library.top(DOCUMENT["kernel"])
    for _ in library.below(top):
        pass  # finds the files beside those that were given
    masters = _masters(top)
    problems = [str(one) for one in _problems(paths, top, masters)]
    if problems:
        raise VerilogError("\n  ".join([f"the bench cannot drive {top.name} ({top.path}):", *problems]))
    folder.mkdir(parents=True, exist_ok=True)
    wrapper, visible = folder / f"{WRAPPER}.v", folder / f"{WRAPPER}.vlt"
    wrapper.write_text(_wrapper(top, masters), encoding="utf-8")
    visible.write_text(f'`verilator_config\npublic_flat_rw -module "{WRAPPER}" -var "*"\n', encoding="utf-8")
    files = library.files()
    return External((visible, *files, wrapper), tuple(dict.fromkeys(file.parent for file in files)))


def _masters(top: Module) -> dict[str, str]:
    """Our name of each AXI master by the kernel's: its own where it is ours, then in order, then its own."""
    found = (re.match(r"m_axi_.+(?=_arvalid$)", name.lower()) for name in top.ports)
    there = [match[0] for match in found if match]
    ours = [interface.name for interface in interfaces(DOCUMENT) if interface.master]
    free = [name for name in ours if name not in there]
    return {name: name if name in ours or not free else free.pop(0) for name in there}


def _problems(paths: Sequence[Path], top: Module, masters: Mapping[str, str]) -> Iterator[Difference | str]:
    if not masters:
        yield "it has no AXI master (m_axi_…_ARVALID)"
    for one in check(paths).differences:
        if one.stops:
            yield one
    described = {interface.name: interface for interface in interfaces(DOCUMENT)}
    for theirs, name in masters.items():
        if theirs not in described:  # the check above knows ours only
            full = described.get(name, described["m_axi_gmem"])
            yield from interface_ports(full, _renamed(top, theirs, full))


def _renamed(top: Module, theirs: str, interface: Interface) -> dict[str, Port]:
    """Ports of the kernel's interface ``theirs`` by the names that ``interface`` gives them."""
    prefix = f"{theirs}_"
    return {
        f"{interface.name}_{name.lower().removeprefix(prefix)}": port
        for name, port in top.ports.items()
        if name.lower().startswith(prefix)
    }


def _wrapper(top: Module, masters: Mapping[str, str]) -> str:
    """Verilog of the wrapper. Outputs of the kernel that the bench does not use stay open, such inputs are 0."""
    declared: dict[str, str] = {}
    connected: list[str] = []
    for name, port in top.ports.items():
        ours = _our_name(name.lower(), masters)
        wire = "" if port.width == 1 else f"[{(port.width or 1) - 1}:0] "
        if ours is None:
            connected.append(f".{name}({'' if port.direction == 'output' else _zero(port)})")
        else:
            declared[ours] = f"  {port.direction} wire {wire}{ours}"
            connected.append(f".{name}({ours})")
    idle = []
    for expected in (port for interface in interfaces(DOCUMENT) for port in _needed(interface)):
        if expected.name not in declared:
            width = expected.widths[0] if expected.widths else 1
            declared[expected.name] = f"  {expected.direction} wire [{width - 1}:0] {expected.name}"
            if expected.direction == "output":
                idle.append(f"  assign {expected.name} = 0;")
    return "\n".join(
        [
            f"// Written by nearkv around {top.name}.", f"module {WRAPPER} (", ",\n".join(declared.values()), ");",
            *idle, f"  {top.name} kernel (", ",\n".join(f"      {one}" for one in connected), "  );", "endmodule", "",
        ]
    )  # fmt: skip


def _our_name(name: str, masters: Mapping[str, str]) -> str | None:
    """What the bench calls the kernel's port ``name``; None where it has no use for it."""
    described = {interface.name: interface for interface in interfaces(DOCUMENT)}
    if name in {expected.name for expected in plain_ports()}:
        return name
    for theirs, ours in {"s_axi_control": "s_axi_control", **masters}.items():
        if name.startswith(f"{theirs}_"):
            signal = name.removeprefix(f"{theirs}_")
            interface = described.get(ours, described["m_axi_gmem"])
            used = {port.name.removeprefix(f"{interface.name}_") for port in interface.ports if _used(port)}
            return f"{ours}_{signal}" if signal in used else None
    return None


def _needed(interface: Interface) -> Iterator[Expected]:
    """Ports without which the bench does not start: required ones, and the identifiers of the same channels."""
    required = {port.name for port in interface.ports if port.required}
    yield from (port for port in interface.ports if port.required or f"{port.name.removesuffix('id')}valid" in required)


def _used(port: Expected) -> bool:
    """Whether the bench looks at such a port: what a memory needs, and identifiers, which its models insist on."""
    return bool(re.search(r"_([a-z]+(valid|ready|addr|len|size|burst|data|strb|last|resp)|(a[rw]|r|b)id)$", port.name))


def _zero(port: Port) -> str:
    return f"{{{port.width or 1}{{1'b0}}}}"
