"""A typed wrapper over the ``nvme`` command of nvme-cli."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearkv_drivers.fields import Fields, OutputError, load
from nearkv_drivers.nvme import parse
from nearkv_drivers.nvme.errors import NvmeError, NvmeNotFoundError, NvmePermissionError
from nearkv_drivers.nvme.model import (
    Controller,
    ErrorEntry,
    FirmwareLog,
    Health,
    LbaFormat,
    ListedNamespace,
    Namespace,
    SmartLog,
    controller_path,
    namespace_id,
)
from nearkv_drivers.tools import Completed, Runner, run_here

DENIED = ("permission denied", "operation not permitted", "eacces", "eperm")
NOT_INSTALLED = "nvme-cli is not installed: apt install nvme-cli (or dnf install nvme-cli)"
COMMAND_NOT_FOUND = 127
"""A shell's exit status for a missing program (runners may go through one)."""
ABSENT = ("no such file or directory", "no such device")


class NvmeCli:
    """The administration commands that nearkv needs, for nvme-cli 1.x and 2.x.

    Every method raises NvmeNotFoundError where nvme-cli or the drive is missing, NvmePermissionError with the remedy
    where the node may not be opened, OutputError naming the field of an output that makes no sense, and NvmeError
    with the tool's own words for anything else.
    """

    def __init__(self, run: Runner = run_here, executable: str = "nvme"):
        """``run`` executes commands where the drives are (this machine unless a test says otherwise)."""
        self._run = run
        self.executable = executable

    def version(self) -> str:
        """nvme-cli's version, such as ``2.3``."""
        words = self._call(["version"], None).stdout.decode(errors="replace").split()
        try:
            return words[words.index("version") + 1]
        except (ValueError, IndexError):
            raise OutputError(f"nvme version: no version in {' '.join(words)[:60]!r}") from None

    def list_namespaces(self) -> list[ListedNamespace]:
        """Every namespace of every drive; empty where there is none.

        Without root nvme-cli succeeds and shows nothing (2.x) or blank lines (1.x): that is NvmePermissionError here.
        """
        found = parse.listing(self._call(["list", "-o", "json"], None).stdout)
        if not found or not all(one.serial and one.size_bytes for one in found):
            hidden = self._run(["ls", "/sys/class/nvme"]).stdout.decode(errors="replace").split()
            if hidden and self._run(["id", "-u"]).stdout.strip() != b"0":
                raise NvmePermissionError(f"nvme list: {', '.join(hidden)} may not be opened without root: use sudo")
        return found

    def controller(self, device: str) -> Controller:
        """Identify the controller behind ``device`` (/dev/nvme0 or /dev/nvme0n1)."""
        return parse.controller(self._json("id-ctrl", device))

    def namespace(self, device: str) -> Namespace:
        """Identify the namespace ``device`` (/dev/nvme0n1)."""
        if namespace_id(device) is None:
            raise NvmeError(f"{device} is a controller; name a namespace such as {device}n1")
        return parse.namespace(self._json("id-ns", device))

    def smart_log(self, device: str) -> SmartLog:
        """Wear, temperature and traffic of the drive behind ``device``."""
        return parse.smart_log(self._json("smart-log", device))

    def error_log(self, device: str) -> list[ErrorEntry]:
        """The errors that the drive remembers, newest first."""
        return parse.error_log(self._json("error-log", device))

    def firmware_log(self, device: str) -> FirmwareLog:
        """The firmware slots of the drive behind ``device``."""
        fields = load(self._call(["fw-log", device, "-o", "json"], device).stdout, "nvme fw-log")
        inner = next((value for value in fields.values() if isinstance(value, dict)), fields)
        return parse.firmware_log(Fields(inner, f"nvme fw-log {device}"))

    def health(self, device: str) -> Health:
        """Wear and temperature against the drive's own thresholds."""
        return Health(self.controller(device), self.smart_log(device))

    def lba_format(self, device: str, sector_bytes: int) -> LbaFormat:
        """The fastest format of ``device`` with sectors of ``sector_bytes`` and no metadata. Raises NvmeError."""
        formats = self.namespace(device).formats
        fitting = [one for one in formats if one.data_bytes == sector_bytes and not one.metadata_bytes]
        if not fitting:
            offered = sorted({one.data_bytes for one in formats if not one.metadata_bytes})
            raise NvmeError(f"{device} offers no sectors of {sector_bytes} bytes; choose from {offered}")
        return min(fitting, key=lambda one: one.performance)

    def format(self, device: str, sector_bytes: int, *, confirm: str) -> None:
        """Reformat the namespace ``device`` to sectors of ``sector_bytes``. **Everything on it is lost.**

        ``confirm`` must repeat ``device``, or the controller's path where the drive can only format all its
        namespaces together. Refused while anything of it is mounted.
        """
        if namespace_id(device) is None:
            raise NvmeError(f"{device} is a controller; name the one namespace to format, such as {device}n1")
        controller = self.controller(device)
        if not controller.can_format:
            raise NvmeError(f"{device}: the drive does not support Format NVM")
        lost = controller_path(device) if controller.format_covers_all else device
        if confirm != lost:
            scope = "every namespace of " if lost != device else ""
            raise NvmeError(f"formatting {device} destroys all data on {scope}{lost}: pass confirm={lost!r} to go on")
        self._refuse_used(lost)
        chosen = self.lba_format(device, sector_bytes)
        self._call(["format", device, f"--lbaf={chosen.index}", "--force"], device)

    def _refuse_used(self, device: str) -> None:
        """Raise NvmeError where ``device`` holds a mounted file system or a part of a volume (LVM, RAID …)."""
        for line in self._run(["cat", "/proc/mounts"]).stdout.decode(errors="replace").splitlines():
            source, _, rest = line.partition(" ")
            if _part_of(source, device):
                raise NvmeError(f"{source} is mounted on {rest.split()[0]}: unmount it before formatting {device}")
        name = device.removeprefix("/dev/")
        held = self._run(["sh", "-c", f"ls -d /sys/class/block/{name}*/holders/*"])
        for line in held.stdout.decode(errors="replace").splitlines():
            part, _, holder = line.removeprefix("/sys/class/block/").partition("/holders/")
            if _part_of(f"/dev/{part}", device):
                raise NvmeError(f"{part} is used by {holder}: release it before formatting {device}")

    def _json(self, command: str, device: str) -> Fields:
        source = f"nvme {command} {device}"
        fields = load(self._call([command, device, "-o", "json"], device).stdout, source)
        return Fields(fields, source)

    def _call(self, arguments: Sequence[str], device: str | None) -> Completed:
        if device is not None:
            try:
                controller_path(device)
            except ValueError as error:
                raise NvmeError(str(error)) from None
        try:
            done = self._run([self.executable, *arguments])
        except FileNotFoundError:
            raise NvmeNotFoundError(NOT_INSTALLED) from None
        if done.returncode == COMMAND_NOT_FOUND:
            raise NvmeNotFoundError(NOT_INSTALLED)
        message = _complaint(done)
        if message is not None:
            raise _failure(f"nvme {arguments[0]}", device, message)
        return done


def _part_of(node: str, device: str) -> bool:
    """Whether ``node`` is ``device``, a partition of it or (for a controller) a namespace of it."""
    return node.startswith(device) and not node.removeprefix(device)[:1].isdigit()


def _complaint(done: Completed) -> str | None:
    """What the tool says went wrong: the error stream's first line, or since 2.11 an object with ``error``."""
    output = done.stdout.lstrip()
    if output.startswith(b"{") and b'"error"' in output:
        try:
            value: Any = load(output, "nvme").get("error")
        except OutputError:
            value = None
        if isinstance(value, str):
            return value
    if done.returncode == 0:
        return None
    lines = (done.stderr + "\n" + done.stdout.decode(errors="replace")).strip().splitlines()
    return lines[0] if lines else f"exit status {done.returncode} without a word"


def _failure(command: str, device: str | None, message: str) -> NvmeError:
    lowered = message.lower()
    if any(word in lowered for word in DENIED):
        where = device or "the drives"
        return NvmePermissionError(
            f"{command}: {where} may not be opened ({message}). Controller nodes such as /dev/nvme0 need root: "
            "use sudo, or name a namespace node such as /dev/nvme0n1 that your group may read"
        )
    if any(word in lowered for word in ABSENT):
        return NvmeNotFoundError(f"{command}: {message}; `nvme list` shows the drives there are")
    return NvmeError(f"{command}{f' {device}' if device else ''} failed: {message}")
