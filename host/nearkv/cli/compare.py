"""``nearkv compare``: the same prompt through the dense model and through nearkv."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from nearkv.cli import options
from nearkv.cli.progress import tokens_bar
from nearkv.cli.tier_options import TierOptions, takes_tier_options
from nearkv.compare.run import Bars, Comparison
from nearkv.compare.run import compare as run_comparison
from nearkv.compare.table import comparison_table, selection_table
from nearkv.files import check_output, read_text, write_json
from nearkv.loading import load
from nearkv.report import kv_bytes_per_token


@takes_tier_options()
def compare(
    *,
    prompt_file: Annotated[Path, typer.Option("--prompt-file", help="The text: context first, then scored tokens.")],
    context: Annotated[int, typer.Option("--context", min=64, help="Tokens of context.")] = 8000,
    tokens: Annotated[int, typer.Option("--tokens", min=2, help="Teacher-forced tokens after the context.")] = 256,
    model: options.ModelName = options.DEFAULT_MODEL,
    device: options.DeviceUrl = None,
    tiers: TierOptions,
    json_file: options.JsonFile = None,
) -> None:
    """Compare nearkv with a dense StaticCache: likelihood, agreement, speed, memory, selected attention mass."""
    text = read_text(prompt_file)
    check_output(json_file, prompt_file, tiers.window_plan)
    loaded = load(model)
    ids = loaded.encode(text)
    if len(ids) < context + tokens:
        raise typer.BadParameter(
            f"{prompt_file} holds {len(ids)} tokens; --context {context} and --tokens {tokens} need {context + tokens}"
        )
    config = tiers.config(
        model=model, tokens=context + tokens, kv_bytes_per_token=kv_bytes_per_token(loaded.model.config)
    )
    task = Comparison(torch.tensor(ids[:context]), ids[context : context + tokens])
    report = run_comparison(loaded.model, device or options.default_device(), config, task, bars(Console(stderr=True)))
    report |= {"model": model, "prompt_file": str(prompt_file)}
    console = Console()
    console.print(selection_table(report))
    console.print(comparison_table(report))
    if json_file is not None:
        write_json(json_file, report)


def bars(console: Console) -> Bars:
    """Progress bars on ``console``."""
    return lambda label, total, cache: tokens_bar(console, label, total, cache)
