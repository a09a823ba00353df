"""``nearkv sim``: the kernel's benches, and its throughput in cycles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearkv.extras import require
from nearkv.files import check_output, write_json

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
    from nearkv_sim.report import bench_lines

    typer.echo("\n".join(bench_lines()))


@app.command()
def run(
    name: Annotated[str | None, typer.Argument(help="Bench to run (default: all).")] = None,
    waves: Annotated[bool, typer.Option("--waves", help="Record waveforms (VCD).")] = False,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the random stimulus.")] = None,
    cover: Annotated[bool, typer.Option("--cover", help="Collect functional, line and toggle coverage.")] = False,
    effort: Annotated[int, typer.Option("--effort", min=1, help="Multiply the number of random commands.")] = 1,
    dut: Annotated[
        list[Path] | None,
        typer.Option(
            "--dut", envvar="DUT", help="Verilog (file or folder, repeatable) of a kernel to test in place of ours."
        ),
    ] = None,
) -> None:
    """Build and run benches; results as JUnit XML. Exits with 1 where a test failed."""
    _need_simulators()
    from nearkv_sim.report import coverage_lines, outcome_lines
    from nearkv_sim.runner import BENCHES, run_bench

    if name is not None and name not in BENCHES:
        raise typer.BadParameter(f"no bench is called '{name}' (see nearkv sim list)")
    if dut:
        _need_kernel_bench(name, cover)
    passed = True
    for bench in BENCHES if name is None else (name,):
        outcome = run_bench(bench, waves=waves, seed=seed, cover=cover, effort=effort, dut=dut or ())
        passed &= outcome.passed
        typer.echo("\n".join([*outcome_lines(outcome), f"  junit: {outcome.junit}"]))
    if cover:
        typer.echo("\n".join(coverage_lines()))
    if not passed:
        raise typer.Exit(1)


def _need_kernel_bench(name: str | None, cover: bool) -> None:
    """Refuse what does not go together with a kernel from elsewhere."""
    from nearkv_sim.runner import BENCHES, KERNEL

    require("pyverilog", "sim", "Reading Verilog")
    benches = [bench.name for bench in BENCHES.values() if bench.top == KERNEL]
    if name not in benches:
        raise typer.BadParameter(f"--dut (or DUT) names a kernel: name one of its benches, {' or '.join(benches)}")
    if cover:
        raise typer.BadParameter("--cover counts lines of our own kernel, not of one named by --dut (or DUT)")


@app.command()
def bench(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One width and one group instead of all.")] = False,
) -> None:
    """Throughput on streams of 4 MiB and more, counted in cycles of the simulated kernel."""
    _need_simulators()
    from nearkv_sim.report import throughput_lines
    from nearkv_sim.throughput import bench as rows_of

    check_output(json_file)
    rows = []
    for row in rows_of(full=not quick):
        rows.append(row)
        lines = throughput_lines([row])
        typer.echo("\n".join(lines if len(rows) == 1 else lines[1:]))
    if json_file is not None:
        write_json(json_file, rows)


@app.command("check-ports")
def check_ports(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Verilog of the kernel's top, or a folder; more files where needed."),
    ],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")] = None,
) -> None:
    """Compare a Verilog kernel's ports, AXI parameters and registers with the driver's; exit with 1 on a difference."""
    require("pyverilog", "sim", "Reading Verilog")
    from nearkv_sim.check_ports import check

    check_output(json_file, *files)
    report = check(files)
    typer.echo("\n".join(report.lines()))
    if json_file is not None:
        write_json(json_file, report.document())
    if not report.passed:
        raise typer.Exit(1)


@app.command()
def soak(
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the first start; they count up.")] = 1,
    starts: Annotated[int, typer.Option("--starts", min=1, help="Kernel starts, of 4 to 11 requests each.")] = 300,
    sleep: Annotated[bool, typer.Option("--sleep", help="Let idle parts sleep, as the rtl: device does.")] = False,
) -> None:
    """Random requests under random stalls, in C++ and fast, against the golden model. Exits with 1 where one failed."""
    _need_simulators()
    from nearkv_sim.soak import soak as run_soak

    result = run_soak(seed, starts, sleep=sleep)
    typer.echo("\n".join(result.lines()))
    if result.failures:
        raise typer.Exit(1)
