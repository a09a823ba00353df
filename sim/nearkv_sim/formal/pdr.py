"""ABC's property-directed reachability (the package pyosys holds ABC): it looks for an invariant of its own."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from pathlib import Path

from nearkv_sim.formal.plan import Proof
from nearkv_sim.formal.verdict import Verdict

ENGINE = "abc pdr"
LEAST_CYCLES = 10
"""Depth below which a proof without an invariant says too little: every block here answers within a few cycles."""

PREPARE = (
    "chformal -cover -remove", "memory_map", "opt -full", "techmap", "opt -fast",
    "dfflegalize -cell $_DFF_P_ 01 -mince 999999 -minsrst 999999", "aigmap", "opt_clean", "delete -output",
)  # fmt: skip
"""From a flat design to and-inverters and registers."""


def reach(proof: Proof, seconds: int = 30) -> Verdict:
    """Look for an invariant that proves the assertions for every length of time, within ``seconds``.

    Where none is found, the verdict covers as many cycles from reset as the search got to. Raises ModuleNotFoundError
    without pyosys, RuntimeError where a tool fails.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        problem = Path(work) / "problem.aig"
        assertions = proof.translate((*PREPARE, f"write_aiger -zinit -no-startoffset {problem}"), problem)
        output = _abc(problem, f"pdr -T {seconds}; print_status")
    elapsed = time.monotonic() - started
    failure = re.search(r"was asserted in frame (\d+)", output)
    if failure:
        return Verdict(proof.name, ENGINE, False, assertions, int(failure[1]), elapsed)
    if "Property proved" in output:
        return Verdict(proof.name, ENGINE, True, assertions, None, elapsed)
    status = re.search(r"Frames = (\d+)", output)
    cycles = int(status[1]) if status else 0
    return Verdict(proof.name, ENGINE, True if cycles >= LEAST_CYCLES else None, assertions, cycles, elapsed)


def _abc(problem: Path, command: str) -> str:
    """ABC's output for ``command`` on the problem with its assumptions folded in."""
    import pyosys

    abc = Path(pyosys.__file__).parent / "yosys-abc"
    script = f"read_aiger {problem}; fold; orpos; strash; dc2; {command}"
    done = subprocess.run([str(abc), "-c", script], capture_output=True, text=True, check=False, cwd=problem.parent)
    if done.returncode != 0:
        raise RuntimeError(f"yosys-abc failed: {(done.stdout + done.stderr)[-500:]}")
    return done.stdout
