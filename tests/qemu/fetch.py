#!/usr/bin/env python3
"""Get what the QEMU tests need: install QEMU, unpack kernel, BusyBox and tools into build/qemu.

Usage (as root where QEMU is not installed yet): python3 tests/qemu/fetch.py [SUITE ...]

Without arguments the packages come from this machine's own Debian release. Every named suite (bullseye, trixie, sid)
adds that release's nvme-cli with its own libraries, so that the tests also read other versions' output. Uses only the
standard library, apt-get and dpkg.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "qemu"
NATIVE = "native"
MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARY = re.compile(r"^(lib|zlib)")


def packages(action: str) -> list[str]:
    """Names in packages.txt that are to be handled by ``action`` (install or unpack)."""
    lines = (line.split() for line in (HERE / "packages.txt").read_text().splitlines() if not line.startswith("#"))
    return [name for verb, name in lines if verb == action]


def apt_environment(suite: str) -> dict[str, str]:
    """The environment in which apt sees ``suite`` alone, without touching the system's own lists."""
    environment = dict(os.environ)
    if suite == NATIVE:
        return environment
    home = BUILD / "apt" / suite
    for folder in ("lists/partial", "cache/archives/partial"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} {suite} main\n")
    (home / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{home}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
        f'Dir::State::lists "{home}/lists";\nDir::State::status "/dev/null";\nDir::Cache "{home}/cache";\n'
    )
    environment["APT_CONFIG"] = str(home / "apt.conf")
    return environment


def run(command: list[str], environment: dict[str, str], folder: Path | None = None) -> str:
    """Run ``command``; its standard output. A failure ends the script with the command's own words."""
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def with_libraries(names: list[str], environment: dict[str, str]) -> list[str]:
    """``names`` and the libraries that they need, transitively; a kernel metapackage brings its image."""
    found: list[str] = []
    queue = list(names)
    while queue:
        name = queue.pop(0)
        if name in found:
            continue
        found.append(name)
        listing = run(["apt-cache", "depends", "--important", name], environment)
        needed = re.findall(r"^ *\|?(?:Pre)?Depends: (?!<)(\S+)", listing, re.MULTILINE)
        queue += [need for need in needed if LIBRARY.match(need) or need.startswith("linux-image-")]
    return found


def unpack(suite: str, names: list[str]) -> None:
    """Unpack ``names`` and their libraries from ``suite`` into build/qemu/SUITE, unless that was done before."""
    root = BUILD / suite
    stamp = root / ".packages"
    if stamp.exists() and stamp.read_text().split() == names:
        print(f"{suite}: {', '.join(names)} are in {root}")
        return
    environment = apt_environment(suite)
    run(["apt-get", "update", "-qq"], environment)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        wanted = with_libraries(names, environment)
        run(["apt-get", "-o", "APT::Sandbox::User=root", "download", *wanted], environment, Path(scratch))
        for package in sorted(Path(scratch).glob("*.deb")):
            run(["dpkg-deb", "-x", str(package), str(root)], environment)
    stamp.write_text("\n".join(names))
    shutil.rmtree(BUILD / "apt", ignore_errors=True)
    print(f"{suite}: unpacked {len(wanted)} packages into {root}")


def main(suites: list[str]) -> None:
    """Fetch everything; nothing is downloaded twice."""
    unpack(NATIVE, packages("unpack"))
    for suite in suites:
        unpack(suite, ["nvme-cli"])
    if not all(map(shutil.which, ("qemu-system-x86_64", "mke2fs"))):
        run(["apt-get", "install", "-y", "--no-install-recommends", *packages("install")], dict(os.environ))
        print(f"installed {', '.join(packages('install'))}")


if __name__ == "__main__":
    main(sys.argv[1:])
