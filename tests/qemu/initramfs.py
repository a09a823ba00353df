"""Builds the guest's initramfs from the packages that fetch.py unpacked: BusyBox, the tools and the agent."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

MODULES = (
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_console",
    "virtio_blk",
)
"""What the agent's channel and the disk with Python need, in the order of loading.

Drivers that are built into a kernel have no file and are skipped.
"""

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/opt/native
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
printf 'root:x:0:0::/:/bin/sh\\nnobody:x:65534:65534::/:/bin/sh\\n' > /etc/passwd
for module in /modules/*.ko; do insmod $module; done
until port=$(ls /dev/vport*p1 2> /dev/null); do usleep 1000; done
exec 3<> $port
# One line in: a shell command in base64. Three lines out: exit status, standard output, standard error.
while read -r line <&3; do
  echo "$line" | base64 -d > /tmp/command
  sh /tmp/command < /dev/null > /tmp/out 2> /tmp/err
  status=$?
  { echo $status; base64 -w0 /tmp/out; echo; base64 -w0 /tmp/err; echo; } >&3
done
poweroff -f
"""


def find(root: Path, pattern: str) -> Path | None:
    """The first plain file under ``root`` that matches ``pattern``."""
    return next((path for path in sorted(root.rglob(pattern)) if path.is_file() and not path.is_symlink()), None)


def add_program(sysroot: Path, program: str, target: Path) -> None:
    """Put ``sbin/program`` of ``sysroot`` and its libraries into ``target``, behind a script of the same name.

    Every release runs with its own loader and libraries, so several versions of a tool live side by side.
    """
    binary = find(sysroot, f"sbin/{program}")
    folders = [sysroot / "lib/x86_64-linux-gnu", sysroot / "usr/lib/x86_64-linux-gnu"]
    loader = next(folder / "ld-linux-x86-64.so.2" for folder in folders if (folder / "ld-linux-x86-64.so.2").exists())
    assert binary is not None, f"{program} is not in {sysroot}"
    listing = subprocess.run(
        [loader, "--library-path", ":".join(map(str, folders)), "--list", binary],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    library_folder = target / "lib"
    library_folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(binary, library_folder / f"{program}.bin")
    shutil.copy(loader, library_folder / "ld.so")
    for line in listing.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow and "ld-linux" not in name:
            shutil.copy(rest.split()[0], library_folder / name)
    lib = f"/opt/{target.name}/lib"
    script = target / program
    script.write_text(f'#!/bin/sh\nexec {lib}/ld.so --library-path {lib} {lib}/{program}.bin "$@"\n')
    script.chmod(0o755)


def build(packages: Path, suites: list[str], files: dict[str, bytes]) -> Path:
    """The initramfs with the tools of ``suites`` and ``files`` (name in / to content); built once per content."""
    stamp = hashlib.sha256(INIT.encode() + Path(__file__).read_bytes())
    for part in [*suites, *((packages / suite / ".packages").read_text() for suite in suites), *files]:
        stamp.update(part.encode())
    for content in files.values():
        stamp.update(content)
    image = packages / f"initramfs-{stamp.hexdigest()[:16]}.cpio"
    if image.exists():
        return image
    for old in packages.glob("initramfs-*.cpio"):
        old.unlink()
    tree = packages / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("bin", "dev", "proc", "sys", "tmp", "mnt", "etc", "modules", "opt"):
        (tree / folder).mkdir(parents=True)
    native = packages / "native"
    busybox = find(native, "bin/busybox")
    assert busybox is not None, f"busybox is not in {native}"
    shutil.copy(busybox, tree / "bin/busybox")
    for suite in suites:
        add_program(packages / suite, "nvme", tree / "opt" / suite)
    add_program(native, "smartctl", tree / "opt" / "native")
    for order, name in enumerate(MODULES):
        if module := find(native / "lib", f"{name}.ko"):
            shutil.copy(module, tree / "modules" / f"{order}-{name}.ko")
    (tree / "init").write_text(INIT)
    (tree / "init").chmod(0o755)
    for name, content in files.items():
        (tree / name).write_bytes(content)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    archive = subprocess.run(
        [busybox, "cpio", "-o", "-H", "newc"], cwd=tree, input=names.encode(), capture_output=True, check=True
    ).stdout
    image.write_bytes(archive)
    shutil.rmtree(tree)
    return image
