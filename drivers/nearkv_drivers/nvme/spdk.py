"""Optional lab back end: log pages through pynvme, which drives the SSD from user space (SPDK).

pynvme takes the drive away from the kernel: its file systems are gone while it runs. It is never chosen by itself.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from nearkv_drivers.nvme import page, parse
from nearkv_drivers.nvme.errors import NvmeError, NvmeNotFoundError
from nearkv_drivers.nvme.model import Controller, ErrorEntry, Health, SmartLog

ABSENT = (
    "pynvme is not installed. It is optional (a lab tool built from source against SPDK); "
    "nvme-cli does everything that nearkv needs"
)


def _pynvme() -> Any:
    """The module ``nvme`` if it is pynvme's; other packages use the same name."""
    try:
        module = importlib.import_module("nvme")
    except ImportError as error:
        raise NvmeNotFoundError(ABSENT) from error
    if not (hasattr(module, "Controller") and hasattr(module, "Buffer")):
        raise NvmeNotFoundError(f"the installed module 'nvme' is not pynvme's. {ABSENT}")
    return module


class PynvmeDrive:
    """SMART, error log and identify of the drive at PCI address ``address`` through pynvme."""

    def __init__(self, address: str, *, confirm: str, sysfs: Path = Path("/sys")):
        """``confirm`` must repeat ``address``. Raises NvmeError while the kernel's nvme driver holds the drive."""
        if confirm != address:
            raise NvmeError(
                f"pynvme takes the drive at {address} from the kernel, with its file systems: "
                f"pass confirm={address!r} if you mean it"
            )
        full = address if address.count(":") == 2 else f"0000:{address}"
        node = sysfs / "bus/pci/devices" / full
        if not node.exists():
            raise NvmeNotFoundError(f"there is no PCI device {full}; `nvme list -v` shows the drives' addresses")
        if (node / "driver").exists() and (node / "driver").resolve().name == "nvme":
            names = sorted(entry.name for entry in node.glob("nvme/nvme*"))
            raise NvmeError(
                f"{full} belongs to the kernel's nvme driver ({', '.join(names) or 'no name'}): unmount its "
                "namespaces and hand it to SPDK first (pynvme: make setup)"
            )
        module = _pynvme()
        # pynvme 2 wants a Pcie object where earlier versions took the address as bytes.
        self._module = module
        self._drive = module.Controller(module.Pcie(address) if hasattr(module, "Pcie") else address.encode())

    def controller(self) -> Controller:
        """Identify the controller."""
        buffer = self._module.Buffer(page.IDENTIFY_BYTES)
        self._drive.identify(buffer, 0, 1).waitdone()
        return parse.controller(page.controller_fields(bytes(buffer[:])))

    def smart_log(self) -> SmartLog:
        """Wear, temperature and traffic."""
        return parse.smart_log(page.smart_fields(self._log(page.SMART_PAGE, page.SMART_BYTES)))

    def error_log(self) -> list[ErrorEntry]:
        """The errors that the drive remembers, newest first."""
        size = self.controller().error_log_entries * page.ERROR_ENTRY_BYTES
        return parse.error_log(page.error_fields(self._log(page.ERROR_PAGE, size)))

    def health(self) -> Health:
        """Wear and temperature against the drive's own thresholds."""
        return Health(self.controller(), self.smart_log())

    def _log(self, identifier: int, size: int) -> bytes:
        buffer = self._module.Buffer(size)
        self._drive.getlogpage(identifier, buffer, size).waitdone()
        return bytes(buffer[:])
