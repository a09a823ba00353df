"""``nearkv trace``: record the selections of a text, replay them through every placement policy."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress

from nearkv.cache.config import TierConfig
from nearkv.cli import options
from nearkv.errors import UnsupportedError
from nearkv.files import check_output, read_text, write_json
from nearkv.policy import names
from nearkv.tiers.window_scaling import WindowPlan
from nearkv.tiers.window_scaling import plan as plan_windows
from nearkv.trace.format import Trace, TraceError, load, save
from nearkv.trace.profile import profile_windows
from nearkv.trace.replay import Replay, capacity, prompt_blocks, replay_all, warm_shares
from nearkv.trace.report import as_json, as_table, plot, plot_format

app = typer.Typer(help="Record and replay which blocks a text selects.", no_args_is_help=True)
DRAM_FRACTION = 0.2
CURVE = (0.75, 1.0, 1.25, 1.5, 2.0)
"""DRAM fractions of a plot, relative to the one asked for."""


Policies = Annotated[
    list[str], typer.Option("--policy", help=f"Which blocks stay hot (may be repeated): all, {options.POLICIES}.")
]
DramFraction = Annotated[float, typer.Option("--dram-fraction", help="Share of the prompt's KV that may stay in DRAM.")]
OwnFraction = Annotated[
    float | None,
    typer.Option(
        "--dram-fraction", help="Share of the prompt's KV that may stay in DRAM.", show_default=str(DRAM_FRACTION)
    ),
]
"""None where nobody asked for one: windows have a share of their own."""
PinNewest = Annotated[
    float, typer.Option("--pin-newest", help="Share of the pool that the newest blocks take, whatever the policy says.")
]


@app.command()
def replay(
    trace: Annotated[Path, typer.Argument(help="Trace file, from `nearkv trace record`.")],
    policy: Policies = ["all"],  # noqa: B006
    dram_fraction: OwnFraction = None,
    pin_newest: PinNewest = 0.0,
    redivide: Annotated[
        int, typer.Option(min=0, help="Steps after which layers and heads divide the pool anew; 0: never.")
    ] = 0,
    warm: Annotated[bool, typer.Option(help="Start from what the prompt's last queries attended to.")] = False,
    windows: Annotated[Path | None, typer.Option(help="Pool shares per layer and head, from `trace windows`.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the results here.")] = None,
    plot_file: Annotated[Path | None, typer.Option("--plot", help="Plot misses over DRAM share (.svg, .png).")] = None,
) -> None:
    """Hit rate, bytes, movements and the distance to Belady's optimum, per policy."""
    try:
        chosen = _policies(policy)
        _check_results(json_file, plot_file, trace, windows)
        _check_planned(windows, dram_fraction, plot_file)
        recorded = load(trace)
        info = recorded.info
        plan = None if windows is None else WindowPlan.load(windows, info.model)
        fraction = DRAM_FRACTION if dram_fraction is None else dram_fraction

        def replayed(fraction: float) -> dict[str, Replay]:
            pool = capacity(recorded, fraction) if plan is None else plan.blocks
            pool = warm_shares(recorded, pool) if warm else pool
            return replay_all(recorded, pool, chosen, warm=warm, pin_newest=pin_newest, redivide=redivide)

        results = replayed(fraction)
        share = fraction if plan is None else _planned_share(plan, recorded)
        title = f"{info.model}, {info.text}: {share:.0%} of {int(recorded.tokens[-1]):,} tokens in DRAM"
        Console().print(as_table(results, recorded, title))
        if json_file is not None:
            write_json(json_file, as_json(results, recorded))
        if plot_file is not None:
            around = {fraction * step for step in CURVE} - {fraction}
            curves = {other: replayed(other) for other in around if _fits(recorded, other)}
            plot({fraction: results, **curves}, f"{info.model}, {info.text}", plot_file)
    except ValueError as error:
        _fail(error)


@app.command()
def windows(
    traces: Annotated[list[Path], typer.Argument(help="Trace files to learn from, of one model.")],
    output: Annotated[Path, typer.Argument(help="Plan to write (JSON), for this model.")],
    dram_fraction: DramFraction = DRAM_FRACTION,
    greedy: Annotated[bool, typer.Option(help="Solve the knapsack greedily instead of exactly.")] = False,
) -> None:
    """Divide the pool over layers and heads by what each makes of it (2-D window scaling)."""
    try:
        if output.is_file() and zipfile.is_zipfile(output):
            raise TraceError(f"{output} is a trace: name the plan to write last")
        check_output(output, *traces)
        recorded = [load(trace) for trace in traces]
        info = recorded[0].info
        total = capacity(recorded[0], dram_fraction) * info.layers * info.streams
        chosen = plan_windows(profile_windows(recorded), total, exact=not greedy)
        chosen.save(output)
    except ValueError as error:
        _fail(error)
    shares = chosen.blocks
    Console().print(f"{output}: {chosen.total} of {total} blocks, {shares.min()} to {shares.max()} per stream")


@app.command()
def record(
    prompt_file: Annotated[Path, typer.Argument(help="Text to run through the model.")],
    output: Annotated[Path, typer.Argument(help="Trace file to write.")],
    model: options.ModelName = options.DEFAULT_MODEL,
    context: Annotated[int, typer.Option(min=1, help="Tokens of the text to take.")] = 8192,
    steps: Annotated[int, typer.Option(min=1, help="Decode steps to record, the last of those tokens.")] = 480,
    budget: options.Budget = TierConfig.budget,
) -> None:
    """Record what exact scores would select in the last steps of a text, in one dense pass."""
    from nearkv.loading import load as load_model
    from nearkv.trace.dense import record_dense

    try:
        check_output(output, prompt_file)
        text = read_text(prompt_file)
        loaded = load_model(model)
        ids = loaded.tokenizer(text, return_tensors="pt").input_ids[:, :context]
        if ids.shape[1] < context:
            raise TraceError(f"{prompt_file} has {ids.shape[1]} tokens, --context {context} were asked for")
        options.warn_of_length(loaded, context)
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("recording layers", total=loaded.model.config.num_hidden_layers)
            trace = record_dense(
                loaded.model, ids, steps, budget=budget, model_name=Path(model).name, text=prompt_file.name,
                progress=lambda done: progress.update(task, completed=done),
            )  # fmt: skip
        save(trace, output)
    except (ValueError, UnsupportedError) as error:
        _fail(error)
    Console().print(f"{output}: {steps} steps, {trace.info.layers} layers, {output.stat().st_size / 2**20:.1f} MiB")


def _policies(asked: list[str]) -> list[str]:
    """The policies asked for; Belady is always among the results."""
    for name in asked:
        if name not in ("all", "belady", *names()):
            raise TraceError(f"no policy is called {name!r}; there are: all, belady, {', '.join(names())}")
    return names() if "all" in asked else [name for name in asked if name != "belady"]


def _check_results(json_file: Path | None, plot_file: Path | None, *sources: Path | None) -> None:
    """Raise TraceError or InputError for a result that cannot be written."""
    if plot_file is not None:
        plot_format(plot_file)
    for path in (json_file, plot_file):
        check_output(path, *sources)


def _check_planned(windows: Path | None, dram_fraction: float | None, plot_file: Path | None) -> None:
    """Raise TraceError for what contradicts a window plan."""
    if windows is not None and plot_file is not None:
        raise TraceError("a plot varies the DRAM fraction: it cannot be drawn for fixed windows")
    if windows is not None and dram_fraction is not None:
        raise TraceError(f"{windows} says how many blocks are hot: leave --dram-fraction out")


def _planned_share(plan: WindowPlan, trace: Trace) -> float:
    """Share of the prompt's KV that ``plan`` keeps in DRAM, with what is always in."""
    return (plan.total / plan.blocks.size + trace.always) / prompt_blocks(trace)


def _fits(trace: Trace, fraction: float) -> bool:
    try:
        return capacity(trace, fraction) > 0
    except TraceError:
        return False


def _fail(error: Exception) -> NoReturn:
    typer.echo(f"error: {error}", err=True)
    raise typer.Exit(1)
