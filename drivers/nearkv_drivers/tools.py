"""Running system tools (nvme-cli, XRT's): one way to call them, so that tests can stand anywhere."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Completed:
    """What a command returned. ``stdout`` is bytes because some output is binary."""

    returncode: int
    stdout: bytes
    stderr: str


Runner = Callable[[Sequence[str]], Completed]
"""Runs a command and waits; FileNotFoundError where the program does not exist."""


def run_here(command: Sequence[str]) -> Completed:
    """Run ``command`` on this machine."""
    done = subprocess.run(list(command), capture_output=True, check=False)
    return Completed(done.returncode, done.stdout, done.stderr.decode(errors="replace"))
