"""Yosys in this process (the package pyosys), with what it prints sent to a log file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def run_script(commands: Iterable[str], log: Path) -> None:
    """Run Yosys ``commands`` on a new design; everything that it prints is appended to ``log``.

    Raises ImportError where pyosys is missing, RuntimeError where a command fails.
    """
    from pyosys import libyosys

    design = libyosys.Design()
    with _output_to(log):
        for command in commands:
            libyosys.run_pass(f"tee -q -a {log} {command}", design)


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Send this process's standard output to ``log``: pyosys announces commands there whatever it is told."""
    sys.stdout.flush()
    saved = os.dup(1)
    with log.open("a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
