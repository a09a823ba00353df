"""``nearkv demo``: a needle in a long text, found by the dense model and by nearkv, and what each needed."""

from __future__ import annotations

from typing import Annotated

import torch
import typer
from rich.console import Console

from nearkv import demo as material
from nearkv.cli import options
from nearkv.cli.compare import bars
from nearkv.cli.tier_options import TierOptions, takes_tier_options
from nearkv.compare.run import Comparison, compare
from nearkv.compare.table import comparison_table, selection_table
from nearkv.files import check_output, write_json
from nearkv.loading import LoadedModel, load
from nearkv.report import kv_bytes_per_token
from nearkv.session import stop_tokens

ANSWER_TOKENS, SCORED_TOKENS = 24, 96
TEMPLATE_TOKENS = 64
"""Room for the chat template, the needle and the question."""


@takes_tier_options(budget=512, dram_limit="6%")
def demo(
    *,
    context: Annotated[int, typer.Option("--context", min=512, help="Tokens of text.")] = 8000,
    depth: Annotated[float, typer.Option("--depth", min=0, max=1, help="Where the needle lies: 0 start, 1 end.")] = 0.4,
    model: options.ModelName = options.DEFAULT_MODEL,
    device: options.DeviceUrl = None,
    tiers: TierOptions,
    json_file: options.JsonFile = None,
) -> None:
    """Ask for a needle in a long text, dense and through nearkv, and compare the two."""
    check_output(json_file)
    console = Console(soft_wrap=True)
    console.print(f"loading {model} (the first time takes a minute)")
    loaded = load(model)
    before, after = turn(loaded)
    ids = loaded.encode(material.text())
    shown = context - TEMPLATE_TOKENS - ANSWER_TOKENS - SCORED_TOKENS
    document = material.with_needle(loaded.decode(ids[:shown]), depth)
    prompt = torch.tensor(before + loaded.encode(document, special=False))
    task = Comparison(prompt, ids[shown : shown + SCORED_TOKENS], after, ANSWER_TOKENS, stop_tokens(loaded.model))
    config = tiers.config(model=model, tokens=task.tokens, kv_bytes_per_token=kv_bytes_per_token(loaded.model.config))
    console.print(
        f"{len(prompt):,} tokens of text hide one sentence: {material.NEEDLE!r}\n{material.QUESTION}", highlight=False
    )
    report = compare(loaded.model, device or options.default_device(), config, task, bars(Console(stderr=True)))
    texts = {who: loaded.decode(answer).strip() for who, answer in report["answer"].items()}
    report |= {"model": model, "answer_text": texts}
    for who, answer in texts.items():
        console.print(f"{who:>7}: {answer}", highlight=False, markup=False)
    found, same = material.NUMBER in texts["nearkv"], texts["dense"] == texts["nearkv"]
    console.print(f"needle found by nearkv: {'yes' if found else 'NO'}; same answer: {'yes' if same else 'NO'}")
    console.print(selection_table(report))
    console.print(comparison_table(report))
    if json_file is not None:
        write_json(json_file, report)
    if not (found and same):
        raise typer.Exit(1)


def turn(loaded: LoadedModel) -> tuple[list[int], list[int]]:
    """Tokens before the document and after it (the question): a chat turn, or plain text without a template."""
    mark = "DOCUMENT"
    before, _, after = loaded.chat_turn(f"{mark}\n\n{material.QUESTION}").partition(mark)
    return loaded.encode(before, special=False), loaded.encode(after, special=False)
