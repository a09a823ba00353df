"""Synthesises the kernel with Yosys for UltraScale+ and prints an estimate of its area beside a KU15P.

Every figure is an estimate: Vivado maps, packs and retimes differently, and nothing here knows about routing. The
hierarchy is kept, so that equal modules are synthesised once and the run stays within minutes and 2 GB.

Usage: python fpga/synth/estimate.py [--out build/synth] [--check]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from levels import longest_levels

from nearkv_drivers.hardware import rtl_sources
from nearkv_sim.dedupe import dedupe
from nearkv_sim.yosys import run_script

TOP = "nearkv_kernel"

KU15P = {"lut": 522_720, "ff": 1_045_440, "dsp": 1_968, "bram36": 984, "uram": 128}
"""What the FPGA of a SmartSSD has (Xilinx DS890)."""

PLACEABLE_DSPS = 1_344
"""DSPs that a public report could place beside the platform's shell."""

LIMITS = {"lut": 0.30, "dsp": 0.50, "bram36": 0.50, "uram": 0.50}
"""Shares that the kernel must stay under; of DSPs, of those that can be placed."""

WEIGHTS: tuple[tuple[str, str, float], ...] = (
    (r"LUT[1-6]", "lut", 1),
    (r"INV", "lut", 1),
    (r"SRL16E|SRLC16E|SRLC32E", "lut", 1),
    (r"RAM32X1S|RAM64X1S", "lut", 1),
    (r"RAM32X1D|RAM64X1D", "lut", 2),
    (r"RAM32M|RAM64M|RAM128X1D", "lut", 4),
    (r"RAM32M16|RAM64M8|RAM256X1D", "lut", 8),
    (r"FD[RSCP]E(?:_1)?", "ff", 1),
    (r"DSP48E2", "dsp", 1),
    (r"RAMB36E2", "bram36", 1),
    (r"RAMB18E2", "bram36", 0.5),
    (r"URAM288", "uram", 1),
)
"""What a cell of the mapped netlist takes: cells (pattern), resource, how much of it."""


MAP_LUTS = (
    "opt_expr -mux_undef -noclkinv",
    "abc -luts 2:2,3,6:5",
    "clean",
    "xilinx_srl -fixed -minlen 3",
    "techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6",
    "xilinx_dffopt",
    "opt_lut_ins -tech xilinx",
    "clean",
)
"""synth_xilinx's last steps with ABC in place of ABC9, which does not finish on this hierarchy."""


def main() -> int:
    """Synthesise, print, write utilisation.json; returns 1 under ``--check`` where a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/synth"), help="folder of results (build/synth)")
    parser.add_argument("--check", action="store_true", help="fail where a limit of the design is exceeded")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        cells = synthesise(arguments.out)
    except ImportError as error:
        print(f"error: synthesis needs the package {error.name}: pip install 'nearkv[sim]'", file=sys.stderr)
        return 1
    used = utilisation(cells)
    levels = longest_levels((arguments.out / "mapped.il").read_text(encoding="utf-8"))
    report = {**used, "configuration": configuration(), "estimate": True, "longest_levels": levels}
    (arguments.out / "utilisation.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    over = print_table(used)
    print("longest chains of LUTs between registers (estimate; carry chains count as one):")
    for module, depth in list(levels.items())[:8]:
        print(f"  {depth:3d}  {module}")
    return int(arguments.check and bool(over))


def synthesise(out: Path) -> dict[str, int]:
    """Cells of the mapped design by type. Yosys's log, statistics and netlist go to ``out``."""
    log = out / "yosys.log"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as work:
        elaborated = Path(work) / "elaborated.il"
        files = " ".join(map(str, rtl_sources()))
        run_script([f"read_slang --keep-hierarchy --top {TOP} {files}", f"write_rtlil {elaborated}"], log)
        elaborated.write_text(dedupe(elaborated.read_text(encoding="utf-8"), TOP), encoding="utf-8")
        run_script(
            [
                f"read_rtlil {elaborated}",
                # Ports stay ports: the kernel is a block inside a platform's design.
                f"synth_xilinx -family xcup -uram -noiopad -noclkbuf -top {TOP} -run begin:map_luts",
                *MAP_LUTS,
                f"tee -q -o {out}/statistics.json stat -json -tech xilinx",
                f"write_rtlil {out}/mapped.il",
            ],
            log,
        )
    return total_cells(json.loads((out / "statistics.json").read_text(encoding="utf-8"))["modules"], TOP)


def total_cells(modules: Mapping[str, Mapping[str, Any]], top: str) -> dict[str, int]:
    """Cells of ``top`` with all that it instantiates, by type (Yosys's own sum leaves types out)."""

    @cache
    def cells_of(name: str) -> Counter[str]:
        total: Counter[str] = Counter()
        for kind, count in modules["\\" + name]["num_cells_by_type"].items():
            inside = cells_of(kind) if "\\" + kind in modules else Counter({kind: 1})
            for cell, times in inside.items():
                total[cell] += count * times
        return total

    return dict(cells_of(top))


def utilisation(cells: Mapping[str, int]) -> dict[str, float]:
    """Resources that ``cells`` take, by the names in KU15P."""
    used: Counter[str] = Counter(dict.fromkeys(KU15P, 0))
    for cell, count in cells.items():
        for pattern, resource, weight in WEIGHTS:
            if re.fullmatch(pattern, cell.removeprefix("\\")):
                used[resource] += count * weight
    return {name: int(value) if value == int(value) else value for name, value in used.items()}


def configuration() -> dict[str, int]:
    """The parameters of ``nearkv_pkg.sv`` that decide the area."""
    text = next(path for path in rtl_sources() if path.name == "nearkv_pkg.sv").read_text(encoding="utf-8")
    names = ("LANES", "HEADS", "MAX_GROUP", "STORE_ROWS", "MAX_TOP_K", "KEY_FIFO_BEATS")
    found = {name: re.search(rf"(?:DEFAULT_)?{name} = (\d+);", text) for name in names}
    return {name: int(match[1]) for name, match in found.items() if match}


def print_table(used: Mapping[str, float]) -> list[str]:
    """Print ``used`` beside the device; returns the resources over their limit."""
    print(f"estimated utilisation of {TOP} on a KU15P (Yosys synth_xilinx, hierarchy kept): {configuration()}")
    over = []
    for name, value in used.items():
        there = PLACEABLE_DSPS if name == "dsp" else KU15P[name]
        share, limit = value / there, LIMITS.get(name)
        beside = f" of {PLACEABLE_DSPS} placeable ({KU15P[name]} in all)" if name == "dsp" else f" of {there}"
        within = "" if limit is None else f", limit {limit:.0%}{'' if share <= limit else ': EXCEEDED'}"
        print(f"  {name:7s} {value:>9,}{beside} = {share:.1%}{within}")
        if limit is not None and share > limit:
            over.append(name)
    return over


if __name__ == "__main__":
    sys.exit(main())
