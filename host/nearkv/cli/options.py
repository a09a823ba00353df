"""Options that several commands share, and what they are turned into."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nearkv.cache.config import TierConfig
from nearkv.loading import DEMO_MODEL, LoadedModel, cache_folder
from nearkv.policy import names
from nearkv.selectors import SUMMARIES
from nearkv.tiers.window_scaling import WindowPlan
from nearkv_drivers import DeviceError
from nearkv_drivers.urls import parse_size

ModelName = Annotated[str, typer.Option("--model", help="Model folder, .gguf file or cached hub id.")]
DeviceUrl = Annotated[
    str | None,
    typer.Option("--device", help="Device URL, such as emulated:/data/kv.drive?ddr=4GiB. Default: a file of its own."),
]
Budget = Annotated[int, typer.Option("--budget", help="Tokens that attention may read per step and layer.")]
DramLimit = Annotated[
    str | None,
    typer.Option("--dram-limit", help="Host memory for KV during decode, such as 64MiB, or a share of the KV: 6%."),
]
Bits = Annotated[int, typer.Option("--bits", help="Bits per value of the score blocks: 4 or 8.")]
PolicyName = Annotated[str, typer.Option("--policy", help=f"Which blocks stay hot: {', '.join(names())}.")]
Alpha = Annotated[
    float | None,
    typer.Option("--alpha", help="Share of the context's tokens that stays hot, such as 0.2, as the context grows."),
]
Windows = Annotated[
    Path | None,
    typer.Option("--window-plan", help="Divides the hot blocks over layers and heads; from `nearkv trace windows`."),
]
Beta = Annotated[
    str | None,
    typer.Option("--beta", help="Host bytes scored per drive byte, or adaptive. Default: the drive scores all."),
]
FirstStage = Annotated[
    str | None,
    typer.Option(
        "--first-stage",
        help=f"Summary in DRAM that proposes which blocks are scored: {', '.join(sorted(SUMMARIES))}. Default: none.",
    ),
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")]

DEFAULT_MODEL, DEFAULT_BUDGET, DEFAULT_BITS, DEFAULT_POLICY = DEMO_MODEL, 1024, 4, "lru"


def default_device() -> str:
    """An emulated drive on a file of this process's own, removed on close."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return f"emulated:{folder}/drive-{os.getpid()}"


def tier_config(
    budget: int,
    dram_limit: str | None,
    bits: int,
    policy: str,
    *,
    tokens: int,
    kv_bytes_per_token: int,
    alpha: float | None = None,
    window_plan: Path | None = None,
    model: str | None = None,
    beta: str | None = None,
    first_stage: str | None = None,
) -> TierConfig:
    """The settings for a context of ``tokens``. A DRAM limit in per cent is a share of those tokens' dense KV.

    A ``window_plan`` must have been made for ``model``. Raises typer.BadParameter naming the option.
    """
    limit = None if dram_limit is None else _dram_bytes(dram_limit, tokens * kv_bytes_per_token)
    try:
        if window_plan is not None:
            WindowPlan.load(window_plan, None if model is None else Path(model).name)
        return TierConfig(
            budget=budget,
            dram_limit=limit,
            alpha=alpha,
            window_plan=None if window_plan is None else str(window_plan),
            bits=bits,
            policy=policy,
            expected_tokens=tokens,
            beta=_beta(beta),
            first_stage=first_stage,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def warn_of_length(loaded: LoadedModel, tokens: int) -> None:
    """Say so where ``tokens`` are more than the model was made for: it answers, but not well."""
    if (warning := loaded.length_warning(tokens)) is not None:
        Console(stderr=True, soft_wrap=True).print(warning, style="yellow", highlight=False, markup=False)


def _dram_bytes(text: str, kv_bytes: int) -> int:
    """``text``, a size or a percentage of ``kv_bytes``, in bytes. Raises typer.BadParameter naming it."""
    if not text.endswith("%"):
        try:
            return parse_size(text, "--dram-limit")
        except DeviceError as error:
            raise typer.BadParameter(str(error)) from error
    try:
        share = float(text[:-1])
    except ValueError:
        share = math.nan
    if not 0 < share < math.inf:
        raise typer.BadParameter(f"--dram-limit {text}: write a size such as 64MiB or a percentage such as 6%")
    return round(share / 100 * kv_bytes)


def _beta(text: str | None) -> float | str | None:
    """A number where it is one; TierConfig refuses other words than the one it knows."""
    try:
        return text if text is None else float(text)
    except ValueError:
        return text
