"""Yosys (the package pyosys) in a process of its own, because an error ends the process that it runs in."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def run_script(commands: Sequence[str], log: Path) -> None:
    """Run Yosys ``commands`` on a new design; everything that it prints is appended to ``log``.

    Raises ModuleNotFoundError where pyosys is missing, RuntimeError with the end of the log where a command fails.
    """
    if importlib.util.find_spec("pyosys") is None:
        raise ModuleNotFoundError("pyosys is not installed", name="pyosys")
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=json.dumps([str(log), *commands]), text=True,
            stdout=file, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"Yosys failed ({log}):\n{log.read_text(encoding='utf-8', errors='replace')[-1500:]}")


def main() -> None:
    """Run the commands on standard input: a JSON list, the log file first."""
    from pyosys import libyosys

    log, *commands = json.load(sys.stdin)
    design = libyosys.Design()
    for command in commands:
        libyosys.run_pass(f"tee -q -a {log} {command}", design)


if __name__ == "__main__":
    main()
