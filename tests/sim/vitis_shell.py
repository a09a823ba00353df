"""A top shaped like Vitis HLS's around a kernel with our port names: upper-case AXI signals, every channel on every
bundle, two-bit locks, six address bits for the registers. It stands in for a vendor's output, which we do not have."""

from __future__ import annotations

from collections.abc import Iterator

from nearkv_drivers.hardware import kernel_interface
from nearkv_sim.check_ports_expected import Interface, interfaces, plain_ports


def shell(inner: str, bundles: dict[str, str]) -> str:
    """Verilog of the top ``nearkv_kernel`` around the module ``inner``; ``bundles`` names our interfaces anew."""
    outside = [f"{port.direction} {port.name}" for port in plain_ports()]
    connected = [(port.name, port.name) for port in plain_ports()]
    idle: list[str] = []
    for interface in interfaces(kernel_interface()):
        ours = set(_ours(interface))
        for port in interface.ports:
            signal = port.name.removeprefix(f"{interface.name}_")
            name = f"{bundles.get(interface.name, interface.name)}_{signal.upper()}"
            if not interface.master and signal.endswith("prot"):
                continue
            width = (port.widths or (1,))[0 if signal.endswith("addr") else -1]
            outside.append(f"{port.direction} {f'[{width - 1}:0] ' if width > 1 else ''}{name}")
            if signal in ours:
                connected.append((port.name, name))
            elif port.direction == "output":
                idle.append(f"  assign {name} = 0;")
    ports, pins = ",\n  ".join(outside), ",\n    ".join(f".{port}({name})" for port, name in connected)
    # `inside` is a name in Verilog-2005 and a keyword in SystemVerilog.
    return "\n".join(
        [f"module nearkv_kernel (\n  {ports}\n);", *idle, f"  {inner} inside (\n    {pins}\n  );", "endmodule\n"]
    )


def _ours(interface: Interface) -> Iterator[str]:
    """Signals that our kernel has."""
    channels = ("ar", "r") if interface.description.get("channels") == "read" else ("ar", "r", "aw", "w", "b")
    for port in interface.ports:
        signal = port.name.removeprefix(f"{interface.name}_")
        channel = next(one for one in ("ar", "aw", "r", "w", "b") if signal.startswith(one))
        if channel in channels and signal != "wid" and not signal.endswith(("user", "region")):
            yield signal
