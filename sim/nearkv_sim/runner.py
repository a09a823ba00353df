"""Lists and runs the benches: what ``nearkv sim list`` and ``nearkv sim run`` do."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from cocotb_tools.runner import Verilator

from nearkv_drivers.hardware import rtl_sources
from nearkv_sim.toolchain import BUILD, FPGA, SIM, build_simulation, environment


@dataclass(frozen=True)
class Bench:
    """A cocotb module and the hardware that it drives."""

    name: str
    about: str
    top: str = "nkv_modules"
    """The kernel, or a module that instantiates every small module once."""
    parameters: dict[str, int] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """Import path of the cocotb tests."""
        return f"nearkv_sim.benches.{self.name}"


WATCHDOG_CYCLES = 4096
"""A watchdog that benches can wait for; still longer than any legal silence in them."""

KERNEL = "nearkv_kernel"
_SIZES = {"WATCHDOG_CYCLES": WATCHDOG_CYCLES, "STORE_ROWS": 4096}

BENCHES: dict[str, Bench] = {
    bench.name: bench
    for bench in (
        Bench("fifo", "FIFOs, skid buffer: order, capacity, one entry a cycle"),
        Bench("crc32c", "CRC-32C of blocks at line rate"),
        Bench("mac", "query layout, unpacking, packed multiplies, adder tree: dot products"),
        Bench("scale", "multipliers, shift, bias, saturation"),
        Bench("block_mass", "log-mass of blocks, back to back"),
        Bench("fold", "stream totals from T0"),
        Bench("select", "priorities, sorting, top k"),
        Bench("results", "tiles, bitmap of bad blocks, result addresses"),
        Bench("axi_reader", "read bursts, room, flush"),
        Bench("axi_writer", "write bursts, store and forward, flush"),
        Bench("control", "registers, interrupts, start and done"),
        Bench("kernel", "the kernel against the golden model", KERNEL, _SIZES),
        Bench("kernel_errors", "AXI errors, bad descriptors, silence, reset in mid-run", KERNEL, _SIZES),
    )
}


@dataclass(frozen=True)
class Outcome:
    """What a bench did. ``failures`` maps test names to their messages."""

    bench: str
    seed: int
    tests: int
    failures: dict[str, str]
    junit: Path
    waves: Path | None
    coverage: Path | None
    dut: tuple[Path, ...] = ()
    """Files or folders of the external kernel that was simulated in place of ours."""

    @property
    def passed(self) -> bool:
        """Whether tests ran and none failed."""
        return self.tests > 0 and not self.failures

    @property
    def reproduce(self) -> str:
        """The one command that repeats this run."""
        return " ".join([f"nearkv sim run {self.bench} --seed {self.seed}", *(f"--dut {path}" for path in self.dut)])


def list_benches() -> list[Bench]:
    """Every bench, modules before the kernel."""
    return list(BENCHES.values())


def run_bench(
    name: str,
    *,
    waves: bool = False,
    seed: int | None = None,
    cover: bool = False,
    effort: int = 1,
    dut: Sequence[Path] = (),
) -> Outcome:
    """Build (if needed) and run one bench; KeyError for an unknown name.

    ``effort`` multiplies the number of random commands. ``dut`` (files or folders of Verilog) takes the place of our
    kernel, for benches of the kernel: VerilogError where it lacks what they need. JUnit XML goes to
    ``build/sim/results``, coverage to ``build/sim/coverage``.
    """
    bench = BENCHES[name]
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    label = f"{name}-dut" if dut else name
    run_folder = BUILD / "runs" / label
    shutil.rmtree(run_folder, ignore_errors=True)
    run_folder.mkdir(parents=True)
    top, folder = _build(bench, dut, run_folder, cover=cover, waves=waves)
    junit = BUILD / "results" / f"{label}.xml"
    junit.parent.mkdir(parents=True, exist_ok=True)
    functional = run_folder / "functional.json"
    runner = Verilator()
    junit.unlink(missing_ok=True)
    variables = {"NEARKV_SIM_EFFORT": str(effort), "NEARKV_SIM_FUNCTIONAL": str(functional)}
    with environment(variables), suppress(SystemExit):  # cocotb's runner exits where a test failed, under pytest
        runner.test(
            test_module=bench.module, hdl_toplevel=top, hdl_toplevel_lang="verilog", build_dir=folder,
            test_dir=run_folder, seed=seed, waves=waves, results_xml=str(junit), log_file=run_folder / "run.log",
        )  # fmt: skip
    if not junit.is_file():
        raise RuntimeError(f"the simulation of {name} ended without results: see {run_folder / 'run.log'}")
    tests, failures = read_junit(junit)
    dump = run_folder / "dump.vcd"
    return Outcome(
        name, seed, tests, failures, junit, dump if dump.exists() else None,
        _collect_coverage(name, run_folder) if cover else None, tuple(dut),
    )  # fmt: skip


def _build(bench: Bench, dut: Sequence[Path], run_folder: Path, *, cover: bool, waves: bool) -> tuple[str, Path]:
    """Top module and folder of the simulation that ``bench`` runs, with what an external kernel reads at run time."""
    if dut:
        from nearkv_sim.external import WRAPPER, wrap

        kernel = wrap(dut, run_folder)
        for data in (path for folder in kernel.folders for path in sorted(folder.glob("*.dat"))):
            shutil.copy(data, run_folder)  # Vitis HLS initialises memories from files beside the simulation
        return WRAPPER, build_simulation(WRAPPER, kernel.files, {}, cover=cover, waves=waves, include=kernel.folders)
    names = ["kernel_ports.vlt"] if bench.top == KERNEL else ["module_ports.vlt", "nkv_modules.sv"]
    files = [*rtl_sources(), *(SIM / "rtl" / name for name in names)]
    return bench.top, build_simulation(bench.top, files, bench.parameters, cover=cover, waves=waves)


def read_junit(path: Path) -> tuple[int, dict[str, str]]:
    """Number of tests, and the message of each that failed."""
    failures = {}
    cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    for case in cases:
        for failure in [*case.iter("failure"), *case.iter("error")]:
            failures[case.attrib["name"]] = failure.attrib.get("message") or failure.text or "failed"
    return len(cases), failures


def _collect_coverage(name: str, run_folder: Path) -> Path | None:
    """Keep Verilator's and the functional coverage of this run beside those of the others."""
    folder = BUILD / "coverage"
    folder.mkdir(parents=True, exist_ok=True)
    for source, target in (("coverage.dat", f"{name}.dat"), ("functional.json", f"{name}.functional.json")):
        if (run_folder / source).exists():
            shutil.copy(run_folder / source, folder / target)
    data = folder / f"{name}.dat"
    return data if data.exists() else None


def effort() -> int:
    """Multiplier for random commands in the running bench."""
    return int(os.environ.get("NEARKV_SIM_EFFORT", "1"))


__all__ = ["BENCHES", "FPGA", "Bench", "Outcome", "effort", "list_benches", "run_bench"]
