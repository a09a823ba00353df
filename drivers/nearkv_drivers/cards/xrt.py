"""Calling ``xrt-smi`` or its older name ``xbutil``. Both write JSON to a file only, never to the terminal."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from nearkv_drivers.cards import parse
from nearkv_drivers.cards.model import Card, CardError, ListedCard
from nearkv_drivers.tools import Runner, run_here

TOOLS = ("xrt-smi", "xbutil")
XRT_BIN = Path("/opt/xilinx/xrt/bin")
REPORTS = ("platform", "thermal", "electrical", "pcie-info")

NOT_INSTALLED = (
    "neither xrt-smi nor xbutil is installed, so cards cannot be seen: install XRT and the SmartSSD's "
    "platform package, then source /opt/xilinx/xrt/setup.sh"
)


def find_tool(which: Callable[[str], str | None] = shutil.which, folder: Path = XRT_BIN) -> str:
    """The newest tool there is: on the path, or where XRT's packages install it. Raises CardError."""
    for name in TOOLS:
        if found := which(name):
            return found
        if (folder / name).is_file():
            return str(folder / name)
    raise CardError(NOT_INSTALLED)


def tool_name() -> str:
    """The name to use in advice: that of the tool which is installed, else the current one."""
    try:
        return Path(find_tool()).name
    except CardError:
        return TOOLS[0]


class XrtTool:
    """The reports of one XRT installation.

    Methods raise CardError with the tool's own words where it fails, OutputError where its report makes no sense.
    """

    def __init__(self, run: Runner = run_here, executable: str | None = None):
        """``executable`` is found by :func:`find_tool` unless given; that raises CardError where there is none."""
        self._run = run
        self.executable = executable or find_tool()

    @property
    def name(self) -> str:
        """xrt-smi or xbutil, for messages."""
        return Path(self.executable).name

    def list_cards(self) -> list[ListedCard]:
        """Every card that XRT's driver sees; empty where there is none."""
        return parse.cards(self._examine([]), f"{self.name} examine")

    def card(self, address: str) -> Card:
        """The reports of the card at PCI address ``address`` (0000:65:00.1 or 65:00.1)."""
        try:
            full = parse.full_address(address)
        except ValueError as error:
            raise CardError(f"{error}; `nearkv device list` shows the cards' addresses") from None
        return parse.card(self._examine(["-d", full, "-r", *REPORTS]), f"{self.name} examine -d {full}")

    def _examine(self, arguments: list[str]) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            command = [self.executable, "examine", *arguments, "-f", "JSON", "-o", str(report)]
            try:
                done = self._run(command)
            except FileNotFoundError:
                raise CardError(NOT_INSTALLED) from None
            if done.returncode or not report.exists():
                words = (done.stderr + "\n" + done.stdout.decode(errors="replace")).strip().splitlines()
                said = next(
                    (line.strip() for line in words if "ERROR" in line.upper()), words[0] if words else "nothing"
                )
                raise CardError(
                    f"{self.name} examine {' '.join(arguments)}".rstrip() + f" wrote no report; it said: {said}"
                )
            return report.read_bytes()
