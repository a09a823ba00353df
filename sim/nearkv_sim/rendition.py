"""The score kernel as plain Verilog, written by Yosys: what a kernel of another tool's making is like for the benches.

``python -m nearkv_sim.rendition [--out FILE]`` writes it and prints where it lies. Sizes are the benches' own
(``WATCHDOG_CYCLES``, ``STORE_ROWS``), because Yosys fixes parameters when it elaborates.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from nearkv_drivers.hardware import rtl_sources
from nearkv_drivers.verilator import digest
from nearkv_sim.dedupe import dedupe
from nearkv_sim.runner import BENCHES
from nearkv_sim.toolchain import BUILD
from nearkv_sim.yosys import run_script

TOP = "nearkv_kernel"

SIMPLIFY = ("proc", "opt", "memory_collect", "opt_mem", "bwmuxmap", "chtype -set $shift t:$shiftx", "opt_clean")
"""Processes become registers; writes whose bits share an enable become one, which a simulator needs to be quick."""


def rendition() -> Path:
    """The kernel in one Verilog file, written unless it exists for these sources.

    Raises ModuleNotFoundError where pyosys is missing, RuntimeError where Yosys fails.
    """
    parameters = BENCHES["kernel"].parameters
    folder = BUILD / f"rendition-{digest(rtl_sources(), parameters, Path(__file__).read_text(encoding='utf-8'))}"
    target = folder / f"{TOP}.v"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            _write(Path(work), parameters).replace(target)
    return target


def _write(work: Path, parameters: dict[str, int]) -> Path:
    """Elaborate with slang, keep one module of each kind, and write Verilog into ``work``."""
    elaborated, merged, verilog, log = (work / name for name in ("elaborated.il", "merged.il", "top.v", "yosys.log"))
    sizes = " ".join(f"-G {name}={value}" for name, value in parameters.items())
    files = " ".join(map(str, rtl_sources()))
    run_script([f"read_slang --keep-hierarchy {sizes} --top {TOP} {files}", f"write_rtlil {elaborated}"], log)
    merged.write_text(dedupe(elaborated.read_text(encoding="utf-8"), TOP), encoding="utf-8")
    run_script([f"read_rtlil {merged}", *SIMPLIFY, f"write_verilog -noattr {verilog}"], log)
    return verilog


def main() -> int:
    """Write the rendition and print its path; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m nearkv_sim.rendition", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="copy the file here as well")
    arguments = parser.parse_args()
    try:
        path = rendition()
    except ImportError as error:
        print(f"error: rewriting the kernel needs the package {error.name}: pip install 'nearkv[sim]'", file=sys.stderr)
        return 1
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        path = Path(shutil.copy(path, arguments.out))
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
