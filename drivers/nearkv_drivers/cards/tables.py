"""What ``nearkv device`` shows, as rich tables; every function only formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from nearkv_drivers.cards.model import FPGA_SLOW_CELSIUS, Card, ListedCard, P2p
from nearkv_drivers.device import Device
from nearkv_drivers.nvme import Health, ListedNamespace

ABSENT = "-"


def size(count: int | None) -> str:
    """Bytes in the decimal units that drives are sold in."""
    if count is None:
        return ABSENT
    value, units = float(count), ["B", "kB", "MB", "GB", "TB", "PB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.2f} {units[0]}"


def celsius(value: int | None, slow: int) -> str:
    """A temperature; red from ``slow`` on, where the part slows down."""
    if value is None:
        return ABSENT
    return f"[red]{value} °C[/red]" if value >= slow else f"{value} °C"


def _p2p(card: Card) -> str:
    return "[green]enabled[/green]" if card.p2p is P2p.ENABLED else f"[yellow]{card.p2p.value}[/yellow]"


def cards_table(rows: Sequence[tuple[ListedCard, Card | None, Sequence[str]]]) -> Table:
    """One line per card: as listed, as examined (None where that failed) and the drives beside it."""
    table = Table("card", "shell", "ready", "P2P", "FPGA", "link", "drive", title="Cards")
    for listed, card, drives in rows:
        table.add_row(
            listed.address,
            escape(listed.shell) or "unknown",
            "yes" if listed.ready else "[red]no[/red]",
            _p2p(card) if card else ABSENT,
            celsius(card.fpga_celsius, FPGA_SLOW_CELSIUS) if card else ABSENT,
            str(card.link) if card else ABSENT,
            ", ".join(drives) or ABSENT,
        )
    return table


def drives_table(namespaces: Sequence[ListedNamespace], health: Mapping[str, Health]) -> Table:
    """One line per namespace; ``health`` by controller, where it could be read."""
    table = Table("drive", "model", "serial", "size", "sector", "temperature", "wear", "written", title="NVMe drives")
    for one in namespaces:
        known = health.get(one.controller)
        table.add_row(
            one.path,
            escape(one.model),
            escape(one.serial),
            size(one.size_bytes),
            f"{one.sector_bytes} B",
            *_wear(known),
        )
    return table


def _wear(health: Health | None) -> tuple[str, str, str]:
    if health is None:
        return ABSENT, ABSENT, ABSENT
    temperature, margin = health.smart.temperature_celsius, health.throttle_margin_celsius
    slow = temperature + margin if temperature is not None and margin is not None else 0
    return celsius(temperature, slow), f"{health.smart.percent_used} %", size(health.smart.bytes_written)


def one_line(device: Device) -> str:
    """What the device is, how the drive's bytes reach it, and its DRAM."""
    can = device.capabilities
    way = "from the drive into the device" if can.p2p else "THROUGH HOST MEMORY"
    direct = "direct I/O" if can.direct_io else "NO direct I/O"
    figures = ", simulated or emulated" if can.simulated else ""
    return f"{can.name}{figures}; {direct}, score blocks go {way}; {size(can.device_dram_bytes)} of device DRAM"


def device_table(device: Device) -> Table:
    """What a device can do."""
    can = device.capabilities
    table = Table("what", "value", title=f"Device {escape(device.url)}")
    rows = (
        ("name", escape(can.name)),
        ("times", "simulated or emulated" if can.simulated else "the hardware's"),
        ("drive I/O", "direct" if can.direct_io else "[red]through the page cache[/red]"),
        ("score blocks", "drive into device" if can.p2p else "[yellow]through host memory[/yellow]"),
        ("device DRAM", size(can.device_dram_bytes)),
        ("bits per value", ", ".join(map(str, can.bits))),
        ("row widths", ", ".join(map(str, can.row_widths))),
        ("query heads", f"1 to {can.max_group}"),
        ("most blocks a request", f"{can.max_blocks:,}"),
        ("most blocks of a top-k", f"{can.max_top_k:,}"),
    )
    for what, value in rows:
        table.add_row(what, value)
    return table


def health_table(health: Mapping[str, Health]) -> Table:
    """One line per drive: wear, temperature and traffic."""
    table = Table("drive", "model", "temperature", "wear", "written", "read", "throttled", title="Drive health")
    for name, one in health.items():
        throttled = one.smart.throttle_light_seconds + one.smart.throttle_heavy_seconds
        table.add_row(
            name, escape(one.controller.model), *_wear(one), size(one.smart.bytes_read), f"{throttled} s"
        )  # fmt: skip
    return table


def card_table(card: Card, drives: Sequence[str], complaints: Sequence[str]) -> Table:
    """Everything of one card, with what a person should look at below."""
    table = Table("what", "value", title=f"Card {card.address}")
    rows = [
        ("shell", escape(card.shell) or "unknown"),
        ("SmartSSD", "yes" if card.is_smartssd else "no"),
        ("status", escape(card.status) or ABSENT),
        ("P2P", _p2p(card) + (f" (XRT: {escape(card.p2p_text)})" if card.p2p_text else "")),
        ("DRAM", size(card.ddr_bytes) + ("" if card.ddr_calibrated is not False else " [red]not calibrated[/red]")),
        ("link", str(card.link)),
        ("power", f"{card.watts:.1f} W" if card.watts is not None else ABSENT),
        ("drive", ", ".join(drives) or ABSENT),
        *((f"clock {clock.name}", f"{clock.mhz} MHz" if clock.mhz else ABSENT) for clock in card.clocks),
        *((one.description or one.location, celsius(one.celsius, FPGA_SLOW_CELSIUS))
          for one in card.temperatures if one.celsius is not None),
    ]  # fmt: skip
    for what, value in rows:
        table.add_row(what, value)
    for complaint in complaints:
        table.add_row("[red]look at[/red]", escape(complaint))
    return table
