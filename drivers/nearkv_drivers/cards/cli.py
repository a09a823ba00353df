"""``nearkv device``: list, info, watch and selftest. Mount ``app`` under the name device.

Commands raise DeviceError for whatever runs them to print; what is merely missing is said on standard error.
"""

from __future__ import annotations

import time
import warnings
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from nearkv_drivers.cards import tables
from nearkv_drivers.cards.device import CardDevice
from nearkv_drivers.cards.model import Card, CardError
from nearkv_drivers.cards.parse import ADDRESS
from nearkv_drivers.cards.topology import drives_beside
from nearkv_drivers.cards.xrt import XrtTool
from nearkv_drivers.device import Device, DeviceError
from nearkv_drivers.nvme import Health, NvmeCli
from nearkv_drivers.selftest import SelfTest, Step
from nearkv_drivers.urls import open_device, parse_url

app = typer.Typer(name="device", help="Show cards and drives: shell, P2P, temperatures, wear.", no_args_is_help=True)

Address = Annotated[str, typer.Argument(help="PCI address of the card, such as 0000:65:00.1")]
Url = Annotated[str, typer.Argument(help="Device URL, such as card:65:00.1?xclbin=FILE&file=PATH, or emulated:PATH")]
What = Annotated[str, typer.Argument(help="PCI address of a card, or a device URL")]


def _say(message: object) -> None:
    Console(stderr=True).print(str(message), style="yellow", markup=False, highlight=False)


def _cards() -> Table | None:
    """The table of cards; None, after saying why, where XRT's tools are missing or fail."""
    try:
        tool = XrtTool()
        rows = []
        for listed in tool.list_cards():
            try:
                card: Card | None = tool.card(listed.address)
            except DeviceError as error:
                card = None
                _say(error)
            rows.append((listed, card, drives_beside(listed.address)))
    except DeviceError as error:
        _say(error)
        return None
    return tables.cards_table(rows)


def _health(controllers: list[str]) -> tuple[dict[str, Health], list[str]]:
    """Health by controller, and what kept the others from being read."""
    nvme = NvmeCli()
    found: dict[str, Health] = {}
    problems: list[str] = []
    for controller in controllers:
        try:
            found[controller] = nvme.health(controller)
        except DeviceError as error:
            problems.append(str(error))
    return found, problems


def _drives() -> Table | None:
    """The table of drives; None, after saying why, where nvme-cli is missing or fails."""
    try:
        namespaces = NvmeCli().list_namespaces()
    except DeviceError as error:
        _say(error)
        return None
    health, problems = _health(sorted({one.controller for one in namespaces}))
    for problem in problems:
        _say(problem)
    return tables.drives_table(namespaces, health)


@app.command("list")
def list_devices() -> None:
    """Show every card that XRT sees and every NVMe drive."""
    shown = [table for table in (_cards(), _drives()) if table is not None]
    for table in shown:
        Console().print(table if table.row_count else f"No {str(table.title).removeprefix('NVMe ').lower()} found.")
    if not shown:
        raise CardError("neither cards nor drives can be listed: see above")


def _report(tool: XrtTool, address: str) -> Group:
    """The card's table and, where there is a drive beside it, the drive's; problems are part of the tables."""
    card = tool.card(address)
    controllers = drives_beside(card.address)
    health, problems = _health(controllers)
    remedy = card.p2p.remedy(tool.name, card.address)
    complaints = [
        *([remedy] if remedy else []),
        *card.complaints,
        *(f"{name}: {text}" for name, one in health.items() for text in one.complaints),
        *problems,
    ]
    shown = [tables.card_table(card, controllers, complaints)]
    if health:
        shown.append(tables.health_table(health))
    return Group(*shown)


@app.command()
def info(what: What) -> None:
    """Show everything of one card and what to do about what is wrong, or what the device of a URL can do."""
    if ADDRESS.fullmatch(what):
        Console().print(_report(XrtTool(), what))
        return
    url = parse_url(what)
    if url.scheme == "card":  # its bitstream stays as it is
        Console().print(_report(XrtTool(), url.path))
        return
    with open_device(what) as device:
        Console().print(tables.device_table(device))


@app.command()
def selftest(url: Url) -> None:
    """Write, read back and score on a device; exit code 1 if a step fails. What its drive file holds is lost."""
    console = Console(soft_wrap=True)

    def show(step: Step) -> None:
        mark = "[green]passed[/green]" if step.passed else "[red]FAILED[/red]"
        console.print(f"{mark} {step.name}: {escape(step.detail)}", highlight=False)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            device = open_device(url)
        except DeviceError as error:
            show(Step("open", False, str(error)))
            raise typer.Exit(1) from error
    with device:
        show(Step("open", True, tables.one_line(device)))
        for text in [*(str(one.message) for one in caught), *_complaints(device)]:
            console.print(f"[yellow]look at[/yellow] {escape(text)}", highlight=False)
        failed = 0
        for step in SelfTest(device):
            show(step)
            failed += not step.passed
    if failed:
        raise typer.Exit(1)


def _complaints(device: Device) -> list[str]:
    """What a person should look at on a card and the drives beside it; nothing for other devices."""
    if not isinstance(device, CardDevice):
        return []
    report, address = device.card.report(), device.card.address
    health, problems = _health(drives_beside(address))
    return [
        *(report.complaints if report else ()),
        *(f"{name}: {text}" for name, one in health.items() for text in one.complaints),
        *problems,
    ]


@app.command()
def watch(
    address: Address,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two readings")] = 2.0,
    count: Annotated[int, typer.Option(min=0, help="Readings before it ends; 0: until interrupted")] = 0,
) -> None:
    """Refresh one card's temperatures, power and drive until Ctrl-C."""
    tool, taken = XrtTool(), 0
    try:
        with Live(_report(tool, address), console=Console(), auto_refresh=False) as live:
            while count == 0 or (taken := taken + 1) < count:
                time.sleep(interval)
                live.update(_report(tool, address), refresh=True)
    except KeyboardInterrupt:
        return
