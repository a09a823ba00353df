"""A replay's results for people and for programs: one table, one JSON object, one plot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from nearkv.files import whole_file
from nearkv.trace.format import Trace, TraceError
from nearkv.trace.replay import Replay


def as_json(results: Mapping[str, Replay], trace: Trace) -> dict[str, Any]:
    """Per policy: hit rate, bytes, movements, the optimum's hit rate, and what those come to per token."""
    best = results["belady"].hit_rate
    steps = len(trace.tokens) - trace.info.prompt_steps
    return {
        name: {
            "hit_rate": result.hit_rate,
            "bytes_from_drive": result.bytes_from_drive,
            "promotions": result.promotions,
            "demotions": result.demotions,
            "belady_hit_rate": best,
            "bytes_per_token": result.bytes_from_drive / steps,
            "cold_misses": result.cold_misses,
            "pool_blocks": result.pool_blocks,
        }
        for name, result in results.items()
    }


def as_table(results: Mapping[str, Replay], trace: Trace, title: str) -> Table:
    """The same, best policy first, with the distance to Belady in points of hit rate."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 0))
    for column in ("policy", "hit rate", "to Belady", "MiB/token", "promotions", "demotions", "cold misses"):
        table.add_column(column, justify="left" if column == "policy" else "right", no_wrap=True)
    fields = as_json(results, trace)
    for name, row in sorted(fields.items(), key=lambda item: -item[1]["hit_rate"]):
        table.add_row(
            name,
            f"{row['hit_rate']:.4f}",
            f"{100 * (row['belady_hit_rate'] - row['hit_rate']):.2f} pt",
            f"{row['bytes_per_token'] / 2**20:.2f}",
            f"{row['promotions']:,}",
            f"{row['demotions']:,}",
            f"{row['cold_misses']:,}",
        )
    return table


def plot_format(path: str | Path) -> str:
    """The format that the suffix of ``path`` names. Raises TraceError for another, and where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise TraceError("a plot needs matplotlib: pip install 'nearkv[trace]'") from error
    known, suffix = sorted(Figure().canvas.get_supported_filetypes()), Path(path).suffix[1:].lower()
    if suffix not in known:
        raise TraceError(f"{path}: a plot's suffix says its format, one of: .{', .'.join(known)}")
    return suffix


def plot(curves: Mapping[float, Mapping[str, Replay]], title: str, path: str | Path) -> None:
    """Share of selected blocks that come from the drive, over the DRAM fraction, one line per policy.

    The file's suffix says the format. Raises TraceError as :func:`plot_format` does.
    """
    suffix = plot_format(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    fractions = sorted(curves)
    for name in curves[fractions[0]]:
        miss = [100 * (1 - curves[fraction][name].hit_rate) for fraction in fractions]
        bound = name == "belady"
        (line,) = axes.plot([100 * f for f in fractions], miss, "o--" if bound else "o-", label=name)
        if bound:
            line.set_color("black")
    axes.set(xlabel="share of the KV in DRAM (%)", ylabel="selected blocks read from the drive (%)", title=title)
    axes.set_yscale("log")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    with whole_file(path) as file:
        figure.savefig(file, format=suffix)
