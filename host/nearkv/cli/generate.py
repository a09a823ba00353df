"""``nearkv generate``: answer a prompt with the KV cache on a drive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from nearkv.attention import attach
from nearkv.cache.tiered import TieredCache
from nearkv.cli import options
from nearkv.cli.progress import tokens_bar
from nearkv.cli.tier_options import TierOptions, takes_tier_options
from nearkv.files import check_output, read_text, write_json
from nearkv.loading import LoadedModel, load
from nearkv.report import human_bytes, kv_bytes_per_token, path_counters, run_report, scoring_rows
from nearkv.session import Session, stop_tokens


@takes_tier_options()
def generate(
    *,
    prompt: Annotated[str | None, typer.Argument(help="The prompt, or the question about --prompt-file.")] = None,
    prompt_file: Annotated[Path | None, typer.Option("--prompt-file", help="A text to read before the prompt.")] = None,
    model: options.ModelName = options.DEFAULT_MODEL,
    device: options.DeviceUrl = None,
    tiers: TierOptions,
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=1, help="Most tokens to generate.")] = 128,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the text as it is, without the chat template.")] = False,
    json_file: options.JsonFile = None,
) -> None:
    """Answer a prompt greedily with the KV cache on a computational drive."""
    if prompt is None and prompt_file is None:
        raise typer.BadParameter("give a prompt, --prompt-file, or both")
    console, notes = Console(soft_wrap=True), Console(stderr=True)
    text = _prompt_text(prompt, prompt_file)
    check_output(json_file, prompt_file, tiers.window_plan)
    loaded = load(model)
    tokens = prompt_tokens(loaded, text, raw=raw)
    expected = len(tokens) + max_new_tokens
    config = tiers.config(model=model, tokens=expected, kv_bytes_per_token=kv_bytes_per_token(loaded.model.config))
    attach(loaded.model)
    with TieredCache(loaded.model, device or options.default_device(), config) as cache:
        session = Session(loaded.model, cache)
        with tokens_bar(notes, "prefill", len(tokens), cache) as advance:
            session.prefill(tokens, advance)
        before = path_counters(cache)
        with tokens_bar(notes, "decode", max_new_tokens, cache) as advance:
            answer = session.greedy(max_new_tokens, stop_tokens(loaded.model), advance)
        cache.settle()
        report = run_report(cache, session, before)
    report |= {
        "model": model,
        "prompt_tokens": len(tokens),
        "new_tokens": answer,
        "text": loaded.decode(answer),
        "tokens_per_second": session.tokens_per_second,
    }
    console.print(report["text"], markup=False, highlight=False)
    notes.print(_summary(report))
    if json_file is not None:
        write_json(json_file, report)


def _prompt_text(prompt: str | None, prompt_file: Path | None) -> str:
    """The text to read, then the prompt, whichever are given."""
    return "\n\n".join(part for part in (prompt_file and read_text(prompt_file), prompt) if part)


def prompt_tokens(loaded: LoadedModel, text: str, *, raw: bool) -> torch.Tensor:
    """Token ids [n] of ``text``, in the model's chat template unless ``raw`` or it has none."""
    rendered = text if raw else loaded.chat_turn(text)
    ids = loaded.encode(rendered, special=rendered == text)
    if not ids:
        raise typer.BadParameter("the prompt is empty")
    return torch.tensor(ids)


def _summary(report: dict[str, Any]) -> Table:
    table = Table(title=f"{report['prompt_tokens']} prompt tokens on {report['device']['name']}")
    table.add_column("figure")
    table.add_column("value", justify="right")
    dram = sum(report["dram_bytes"].values())
    table.add_row("KV in DRAM", f"{human_bytes(dram)} ({report['resident_kv_fraction']:.1%} of the full KV)")
    table.add_row("score blocks in device DRAM", human_bytes(report["device_dram_bytes"]))
    table.add_row("written to the drive", human_bytes(report["drive_bytes_written"]))
    placement = report["placement"]
    hot = f"{placement['hot_tokens_fraction']:.1%} (bound: {placement['bound']})"
    table.add_row("tokens hot", hot)
    table.add_row("hot-pool hit rate", f"{report['hit_rate']:.1%}")
    if placement["cold_bits"] is not None:
        table.add_row("K and V on the drive", f"{placement['cold_bits']} bits per value")
    table.add_row("read from the drive per token", human_bytes(report["bytes_by_path_per_token"]["drive_to_host"]))
    for figure, value in scoring_rows(report):
        table.add_row(figure, value)
    for name, rate in report["device"].items():
        if name.startswith("simulated_"):
            table.add_row(name.replace("_", " "), f"{human_bytes(rate)}/s")
    table.add_row("decode", f"{report['tokens_per_second']:.1f} tokens/s")
    return table
