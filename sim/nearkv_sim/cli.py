"""``nearkv sim``: the kernel's benches, and its throughput in cycles."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from nearkv.extras import require
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from nearkv_sim.runner import Outcome

app = typer.Typer(help="Simulate the score kernel's RTL: benches, coverage, throughput.", no_args_is_help=True)

PURPOSE = "Simulating the kernel"


def _need_simulators() -> None:
    """Raise UnsupportedError that names nearkv[sim] where a package of it is missing."""
    for module in ("cocotb", "cocotbext.axi"):
        require(module, "sim", PURPOSE)


@app.command("list")
def list_() -> None:
    """List the benches."""
    _need_simulators()
    from nearkv_sim.runner import list_benches

    table = Table("bench", "hardware", "what it checks")
    for bench in list_benches():
        table.add_row(bench.name, bench.top, bench.about)
    Console().print(table)


@app.command()
def run(
    name: Annotated[str | None, typer.Argument(help="Bench to run (default: all).")] = None,
    waves: Annotated[bool, typer.Option("--waves", help="Record waveforms (VCD).")] = False,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the random stimulus (default: any).")] = None,
    cover: Annotated[bool, typer.Option("--cover", help="Collect functional, line and toggle coverage.")] = False,
    effort: Annotated[int, typer.Option("--effort", min=1, help="Multiply the number of random commands.")] = 1,
) -> None:
    """Build and run benches; results as JUnit XML. Exits with 1 where a test failed."""
    _need_simulators()
    from nearkv_sim.runner import BENCHES, run_bench

    if name is not None and name not in BENCHES:
        raise typer.BadParameter(f"no bench is called '{name}' (see nearkv sim list)")
    notes = Console(stderr=True, soft_wrap=True)
    outcomes = []
    for bench in BENCHES if name is None else (name,):
        notes.print(f"{bench}: building and running", highlight=False)
        outcomes.append(run_bench(bench, waves=waves, seed=seed, cover=cover, effort=effort))
        _tell(outcomes[-1])
    if cover:
        print_coverage(Console(soft_wrap=True))
    if not all(outcome.passed for outcome in outcomes):
        raise typer.Exit(1)


def _tell(outcome: Outcome) -> None:
    """One bench's result, and for a failure the command that repeats it."""
    console = Console(soft_wrap=True, highlight=False)
    verdict = "passed" if outcome.passed else "FAILED"
    console.print(f"{outcome.bench}: {verdict}, {outcome.tests} tests, seed {outcome.seed}, {outcome.junit}")
    if outcome.waves:
        console.print(f"  waveforms: {outcome.waves}")
    for test, message in outcome.failures.items():
        console.print(f"  {test}: {message}", markup=False)
    if not outcome.passed:
        console.print(f"  repeat with: {outcome.reproduce}")


def print_coverage(console: Console) -> None:
    """Coverage over all benches whose data lie in the build folder."""
    from nearkv_sim.coverage import code_coverage, functional_coverage
    from nearkv_sim.toolchain import BUILD

    folder = BUILD / "coverage"
    table = Table("coverage", "hit", "of", "share", title="Coverage of every bench that ran with --cover")
    declared = functional_coverage(sorted(folder.glob("*.functional.json")))
    hit = sum(hits > 0 for hits in declared.values())
    table.add_row("functional bins", str(hit), str(len(declared)), f"{hit / max(len(declared), 1):.1%}")
    for kind in code_coverage(sorted(folder.glob("*.dat"))):
        reached, there = (sum(counts) for counts in zip(*kind.modules.values(), strict=True)) if kind.modules else (0, 0)
        table.add_row(kind.kind, str(reached), str(there), f"{kind.share:.1%}" if there else "-")
    console.print(table)
    for name in (name for name, hits in declared.items() if not hits):
        console.print(f"  not hit: {name}", markup=False, highlight=False)


@app.command()
def bench(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows here.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One width and one group instead of all.")] = False,
) -> None:
    """Throughput on streams of 4 MiB and more, counted in cycles of the simulated kernel."""
    _need_simulators()
    from nearkv_sim.throughput import bench as rows_of

    rows: list[dict[str, Any]] = []
    table = Table(title="Throughput of the simulated kernel, in 64-byte beats per cycle")
    for column in ("bits", "D", "G", "mode", "k", "latency", "stream", "end to end"):
        table.add_column(column, justify="right")
    for row in rows_of(full=not quick):
        rows.append(row)
        latency = "stalls" if int(str(row["latency"])) < 0 else str(row["latency"])
        table.add_row(
            str(row["bits"]), str(row["D"]), str(row["G"]), str(row["mode"]), str(row["k"]), latency,
            f"{row['beats_per_cycle']:.4f}", f"{row['end_to_end']:.4f}",
        )  # fmt: skip
        print(f"\r{len(rows)} rows", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    Console().print(table)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
