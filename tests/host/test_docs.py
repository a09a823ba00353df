"""What the pages say about settings, options and device URLs is what the code has."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from nearkv import TierConfig
from nearkv.cli import compare, demo, generate
from nearkv.cli.tier_options import TierOptions
from nearkv.errors import USER_ERRORS
from nearkv.report import PATHS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def text(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def table(page: str, heading: str) -> dict[str, list[str]]:
    """Rows of the first table below ``heading``, by the first cell without its backquotes."""
    section = text(page).split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {row[0].strip("`"): row[1:] for row in rows[2:]}


def written(default: object) -> str:
    """A default as the table has it."""
    if default is None or isinstance(default, bool):
        return {None: "none", True: "on", False: "off"}[default]
    return f"{default:g}" if isinstance(default, float) else str(default)


def test_the_page_on_the_cache_lists_every_setting_with_its_default():
    rows = table("cache.md", "Settings")
    said = {name: cells[0].strip("`") for name, cells in rows.items()}
    assert said == {field.name: written(field.default) for field in fields(TierConfig)}


def test_the_command_line_has_the_settings_under_their_names():
    assert {field.name for field in fields(TierOptions)} <= {field.name for field in fields(TierConfig)}
    app = typer.Typer()
    for command in (generate.generate, compare.compare, demo.demo):
        app.command()(command)
    for command in typer.main.get_command(app).commands.values():
        options = {option for parameter in command.params for option in parameter.opts}
        assert {f"--{field.name.replace('_', '-')}" for field in fields(TierOptions)} <= options


@pytest.mark.parametrize("scheme", ["emulated", "rtl", "card", "pynq"])
def test_the_page_on_devices_lists_every_option_of_a_url(scheme):
    source = {"emulated": "emulated.py", "rtl": "rtl.py", "card": "cards/device.py", "pynq": "boards/device.py"}[scheme]
    code = (ROOT / "drivers" / "nearkv_drivers" / source).read_text(encoding="utf-8")
    (known,) = re.findall(r"\.only\(([^)]*)\)", code)
    row = next(cells for name, cells in table("devices.md", "URLs").items() if name.startswith(f"{scheme}:"))
    assert set(re.findall(r'"(\w+)"', known)) == set(re.findall(r"`(\w+)`", row[1]))


def test_the_paths_of_a_report_are_those_of_the_page():
    assert all(path in text("devices.md") for path in PATHS)


def test_errors_that_people_can_act_on_are_on_the_page():
    missing = [error.__name__ for error in USER_ERRORS if error.__name__ not in text("cache.md")]
    assert not missing


def test_anchors_lead_to_headings():
    broken = []
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]*)\)", page.read_text(encoding="utf-8")):
            headings = re.findall(r"^#+ (.*)$", ((page.parent / target) if target else page).read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
            if anchor not in anchors:
                broken.append(f"{page.name}: {target}#{anchor}")
    assert not broken
