"""Which NVMe drive sits on which card: on a SmartSSD the two share a PCI Express switch inside the device."""

from __future__ import annotations

import os
import re
from pathlib import Path

from nearkv_drivers.cards.parse import full_address

_CONTROLLER = re.compile(r"nvme\d+")


def drives_beside(address: str, sysfs: Path = Path("/sys")) -> list[str]:
    """NVMe controllers (``/dev/nvme0``) that share the nearest PCI bridge with the card at ``address``.

    One on a SmartSSD; none where only the root complex is shared; several where the card is no SmartSSD but sits behind
    a backplane's switch together with drives. Raises ValueError for no PCI address.
    """
    card = _bridges(sysfs / "bus/pci/devices" / full_address(address))
    nearest: list[str] = []
    depth = 0
    controllers = sysfs / "class/nvme"
    for controller in sorted(controllers.iterdir()) if controllers.is_dir() else []:
        shared = _shared(card, _bridges(controller / "device"))
        if shared > depth:
            nearest, depth = [], shared
        if shared == depth and shared > 0:
            nearest.append(f"/dev/{controller.name}")
    return nearest


def drive_of(path: Path, sysfs: Path = Path("/sys")) -> str | None:
    """The NVMe controller (``/dev/nvme0``) that holds the file at ``path``, or the folder where it will be.

    None where that is no NVMe drive, or a file system that spans several (RAID, LVM).
    """
    place = path if path.exists() else path.parent
    number = place.stat().st_dev
    device = (sysfs / f"dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    for part in (device, *device.parents):
        if _CONTROLLER.fullmatch(part.name):
            return f"/dev/{part.name}"
        if part.name.startswith("nvme-subsys"):  # with multipath, the namespace lies beside links to its controllers
            controllers = sorted(entry.name for entry in part.iterdir() if _CONTROLLER.fullmatch(entry.name))
            return f"/dev/{controllers[0]}" if len(controllers) == 1 else None
    return None


def _bridges(device: Path) -> list[str]:
    """The PCI addresses above ``device``, outermost first."""
    parts = device.resolve().parts[:-1] if device.exists() else ()
    roots = [index for index, part in enumerate(parts) if part.startswith("pci")]
    return list(parts[roots[-1] + 1 :]) if roots else []


def _shared(left: list[str], right: list[str]) -> int:
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
