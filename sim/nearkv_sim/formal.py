"""Proofs about the RTL: every ``fpga/formal/prove_*.sv``, with Yosys and ABC.

A proof is a module that drives a block with any inputs and asserts what the block promises. ABC's property-directed
reachability looks for an invariant, which proves the assertions for every length of time; where its time runs out
first, they are proved for as many cycles from reset as it got to. ``python -m nearkv_sim.formal [NAME…]`` prints
one line a proof and exits with 1 where an assertion fails.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkv_drivers.hardware import hardware_root, rtl_sources
from nearkv_sim.yosys import run_script

SECONDS = 30
"""Time for finding an invariant."""

SHARED = "queue"
"""What several proofs use, no proof of its own."""

LEAST_CYCLES = 10
"""Depth below which a proof without an invariant says too little: every block here answers within a few cycles."""

PREPARE = (
    "memory_map", "opt -full", "async2sync", "techmap", "opt -fast",
    "dfflegalize -cell $_DFF_P_ 01 -mince 999999 -minsrst 999999", "aigmap", "opt_clean", "delete -output",
)  # fmt: skip
"""From a flat design to and-inverters and registers."""


@dataclass(frozen=True)
class Verdict:
    """``holds`` is None where nothing was decided. ``cycles`` is the depth, None for every length of time."""

    name: str
    holds: bool | None
    assertions: int
    cycles: int | None

    def line(self) -> str:
        """One line for a person."""
        if self.holds is None:
            return f"{self.name:<16} UNDECIDED after {self.cycles} cycles: {self.assertions} assertions"
        if not self.holds:
            return f"{self.name:<16} FAILED: an assertion fails {self.cycles} cycles after reset"
        extent = "for every length of time" if self.cycles is None else f"for {self.cycles} cycles from reset"
        return f"{self.name:<16} proved {extent}: {self.assertions} assertions"


def proofs() -> list[str]:
    """Names of all proofs."""
    names = {path.stem.removeprefix("prove_") for path in folder().glob("prove_*.sv")}
    return sorted(names - {SHARED})


def folder() -> Path:
    """Where the properties lie."""
    return hardware_root() / "fpga" / "formal"


def prove(name: str, sources: Sequence[Path] | None = None, *, seconds: int = SECONDS) -> Verdict:
    """Decide the assertions of ``prove_{name}`` over ``sources`` (the RTL). RuntimeError where a tool fails."""
    with tempfile.TemporaryDirectory() as work:
        problem = Path(work) / "problem.aig"
        assertions = _write_problem(name, rtl_sources() if sources is None else sources, problem)
        output = _abc(problem, f"pdr -T {seconds}; print_status")
    failure = re.search(r"was asserted in frame (\d+)", output)
    if failure:
        return Verdict(name, False, assertions, int(failure[1]))
    if "Property proved" in output:
        return Verdict(name, True, assertions, None)
    status = re.search(r"Frames = (\d+)", output)
    cycles = int(status[1]) if status else 0
    return Verdict(name, True if cycles >= LEAST_CYCLES else None, assertions, cycles)


def _write_problem(name: str, sources: Sequence[Path], problem: Path) -> int:
    """Write the proof as an AIGER file; returns its number of assertions."""
    files = [path for path in sources if path.suffix == ".sv"]
    files += [folder() / f"prove_{part}.sv" for part in (SHARED, name)]
    log, statistics = problem.with_suffix(".log"), problem.with_suffix(".stat")
    commands = (
        f"read_slang --top prove_{name} {' '.join(map(str, files))}",
        f"prep -flatten -top prove_{name}",
        *PREPARE,
        f"tee -q -o {statistics} stat",
        f"write_aiger -zinit -no-startoffset {problem}",
    )
    run_script(commands, log)
    found = re.search(r"(\d+)\s+\$assert", statistics.read_text(encoding="utf-8"))
    return int(found[1]) if found else 0


def _abc(problem: Path, command: str) -> str:
    """ABC's output for ``command`` on the problem with its assumptions folded in."""
    import pyosys

    abc = Path(pyosys.__file__).parent / "yosys-abc"
    script = f"read_aiger {problem}; fold; strash; scorr; dc2; {command}"
    done = subprocess.run([str(abc), "-c", script], capture_output=True, text=True, check=False, cwd=problem.parent)
    if done.returncode != 0:
        raise RuntimeError(f"yosys-abc failed: {(done.stdout + done.stderr)[-500:]}")
    return done.stdout


def main() -> int:
    """Run the proofs that were named, or all; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m nearkv_sim.formal", description="Prove properties of the RTL.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"proofs to run: {', '.join(proofs())} (all)")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="time for each invariant (%(default)s)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in proofs()]
    if unknown:
        parser.error(f"no proof is called '{unknown[0]}' (there are {', '.join(proofs())})")
    held = True
    for name in arguments.names or proofs():
        try:
            verdict = prove(name, seconds=arguments.seconds)
        except ImportError as error:
            print(f"error: proofs need the package {error.name}: pip install 'nearkv[sim]'", file=sys.stderr)
            return 1
        held &= verdict.holds is True
        print(verdict.line(), flush=True)
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
