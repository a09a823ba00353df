"""The comparison as a table."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from nearkv.report import human_bytes, scoring_rows


def comparison_table(report: dict[str, Any]) -> Table:
    """dense beside nearkv, one row per figure."""
    table = Table(title=f"dense and nearkv, {report['prompt_tokens']:,} tokens of context, {report['tokens']} scored")
    table.add_column("figure")
    table.add_column("dense", justify="right")
    table.add_column("nearkv", justify="right")
    dram, full = sum(report["dram_bytes"].values()), report["full_kv_bytes"]
    nll, speed = report["nll"], report["tokens_per_second"]
    table.add_row("KV in DRAM", human_bytes(full), f"{human_bytes(dram)} ({report['resident_kv_fraction']:.1%})")
    for tier, count in report["dram_bytes"].items():
        if count:
            table.add_row(f"  {tier.replace('_', ' ')}", "", human_bytes(count))
    table.add_row("score blocks in device DRAM", "", human_bytes(report["device_dram_bytes"]))
    table.add_row("on the drive", "", human_bytes(report["drive_bytes_written"]))
    table.add_row("negative log-likelihood (nats/token)", f"{nll['dense']:.4f}", f"{nll['nearkv']:.4f}")
    table.add_row("difference", "", f"{report['delta_nll']:+.4f}")
    table.add_row("top-1 agreement", "", f"{report['top1_agreement']:.3f}")
    table.add_row("decode (tokens/s)", f"{speed['dense']:.1f}", f"{speed['nearkv']:.1f}")
    table.add_row("hot-pool hit rate", "", f"{report['hit_rate']:.1%}")
    for figure, value in scoring_rows(report):
        table.add_row(figure, "", value)
    for path, count in report["bytes_by_path_per_token"].items():
        table.add_row(f"{path.replace('_', ' ')} per token", "", human_bytes(count))
    return table


def selection_table(report: dict[str, Any]) -> Table:
    """Share of the oracle's attention mass by selector."""
    budget = report["config"]["budget"]
    table = Table(title=f"selected attention mass at {budget} tokens, as a share of the oracle's")
    table.add_column("selector")
    table.add_column("mean", justify="right")
    table.add_column("worst layer", justify="right")
    names = {
        "int4": "nearkv, INT4 keys",
        "int8": "nearkv, INT8 keys",
        "quest": "Quest (min/max)",
        "mean_key": "mean key",
    }
    for name, shares in report["selected_mass"].items():
        label = names.get(name, f"most {name}" if name == "recent" else name)
        table.add_row(label, f"{shares['mean']:.4f}", f"{shares['worst_layer']:.4f}")
    return table
