"""Record what each release's nvme-cli prints in the guest, for the parser tests that run without QEMU.

Usage: cd tests && python -m qemu.capture, after qemu/fetch.py bullseye trixie sid. Writes drivers/nvme_captures.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from nearkv_drivers.nvme import NvmeCli

from . import fetch, initramfs
from .conftest import DRIVE_BYTES, SERIALS
from .guest import Guest

TARGET = Path(__file__).resolve().parents[1] / "drivers" / "nvme_captures"

COMMANDS = {
    "version": "version",
    "list": "list -o json",
    "list-verbose": "list -v -o json",
    "id-ctrl": "id-ctrl /dev/nvme0 -o json",
    "id-ns": "id-ns /dev/nvme0n1 -o json",
    "smart-log": "smart-log /dev/nvme0 -o json",
    "error-log": "error-log /dev/nvme0 -o json",
    "fw-log": "fw-log /dev/nvme0 -o json",
    "missing-drive": "smart-log /dev/nvme7 -o json",
}
UNPRIVILEGED = {"unprivileged-list": "list -o json", "unprivileged-smart-log": "smart-log /dev/nvme0 -o json"}
WITHOUT_DRIVES = {"empty-list": "list -o json", "empty-list-verbose": "list -v -o json"}


def capture(guest: Guest, suite: str, commands: dict[str, str], prefix: tuple[str, ...] = ()) -> dict[str, object]:
    """Every command's exit status and output, as text."""
    found: dict[str, object] = {}
    for name, arguments in commands.items():
        line = f"/opt/{suite}/nvme {arguments}"
        done = guest.run([*prefix, line] if prefix else line.split())
        found[name] = {
            "command": f"nvme {arguments}",
            "returncode": done.returncode,
            "stdout": done.stdout.decode(errors="replace"),
            "stderr": done.stderr,
        }
    return found


def main() -> None:
    """One boot: every release with both drives, then with none."""
    suites = [path.parent.name for path in sorted(fetch.BUILD.glob("*/.packages"))]
    with tempfile.TemporaryDirectory() as folder:
        drives = [(serial, Path(folder) / serial) for serial in SERIALS]
        for _, image in drives:
            with image.open("wb") as file:
                file.truncate(DRIVE_BYTES)
        kernel = next((fetch.BUILD / fetch.NATIVE / "boot").glob("vmlinuz-*"))
        with Guest(kernel, initramfs.build(fetch.BUILD, suites, {}), drives) as guest:
            captures = {
                suite: capture(guest, suite, COMMANDS) | capture(guest, suite, UNPRIVILEGED, ("su", "nobody", "-c"))
                for suite in suites
            }
            guest.shell("cd /sys/bus/pci/drivers/nvme && for drive in 0000:*; do echo $drive > unbind; done")
            for suite in suites:
                captures[suite] |= capture(guest, suite, WITHOUT_DRIVES)
                version = NvmeCli(guest.run, f"/opt/{suite}/nvme").version()
                target = TARGET / f"nvme-cli-{version}.json"
                target.write_text(json.dumps(captures[suite], indent=1) + "\n")
                print(f"wrote {target}")
            guest.power_off()


if __name__ == "__main__":
    main()
