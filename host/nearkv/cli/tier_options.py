"""The options of tiering: one set, with one help text each, for every command that runs a model through nearkv."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from nearkv.cache.config import ADAPTIVE, TierConfig
from nearkv.cli.options import POLICIES, Budget
from nearkv.selectors import SUMMARIES
from nearkv.tiers.layout import LAYOUTS
from nearkv.tiers.window_scaling import WindowPlan
from nearkv_drivers import DeviceError
from nearkv_drivers.urls import parse_size


@dataclass(frozen=True)
class TierOptions:
    """What a command line says about tiering; a field is an option, and sets the field of TierConfig of its name.

    Where an option is written otherwise than its setting (a size, a file, a word or a number), :meth:`config` turns
    it into that. A command takes them all with :func:`takes_tier_options`.
    """

    budget: Budget = TierConfig.budget
    dram_limit: Annotated[
        str | None,
        typer.Option("--dram-limit", help="Host memory for KV during decode, such as 64MiB, or a share of the KV: 6%."),
    ] = None
    bits: Annotated[int, typer.Option("--bits", help="Bits per value of the score blocks: 4 or 8.")] = TierConfig.bits
    cold_bits: Annotated[
        int | None,
        typer.Option(
            "--cold-bits",
            help="Bits per value of K and V on the drive: 8 or 4. Changes what attention reads. Default: the model's.",
        ),
    ] = TierConfig.cold_bits
    policy: Annotated[str, typer.Option("--policy", help=f"Which blocks stay hot: {POLICIES}.")] = TierConfig.policy
    pin_newest: Annotated[
        float, typer.Option("--pin-newest", help="Share of the hot blocks that the newest take, whatever the policy.")
    ] = TierConfig.pin_newest
    alpha: Annotated[
        float | None,
        typer.Option("--alpha", help="Share of the context's tokens that stays hot, such as 0.2, as it grows."),
    ] = TierConfig.alpha
    window_plan: Annotated[
        Path | None,
        typer.Option("--window-plan", help="Divides the hot blocks over layers and heads: `nearkv trace windows`."),
    ] = None
    redivide: Annotated[
        int,
        typer.Option(
            "--redivide", help="Decode steps after which layers and heads divide the hot blocks anew; 0: never."
        ),
    ] = TierConfig.redivide
    layout: Annotated[
        str, typer.Option("--layout", help=f"Order of a prompt's blocks on the drive: {', '.join(LAYOUTS)}.")
    ] = TierConfig.layout
    beta: Annotated[
        str | None,
        typer.Option("--beta", help=f"Host bytes scored per drive byte, or {ADAPTIVE}. Default: the drive scores all."),
    ] = None
    first_stage: Annotated[
        str | None,
        typer.Option(
            "--first-stage",
            help=f"Summary in DRAM that proposes which blocks are scored: {', '.join(sorted(SUMMARIES))}. "
            "Default: none, all are scored.",
        ),
    ] = TierConfig.first_stage

    def config(self, *, model: str, tokens: int, kv_bytes_per_token: int) -> TierConfig:
        """The settings for a context of ``tokens``. A DRAM limit in per cent is a share of those tokens' dense KV.

        A ``window_plan`` must have been made for ``model``. Raises typer.BadParameter naming the option.
        """
        settings: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        settings["dram_limit"] = self._dram_bytes(tokens * kv_bytes_per_token)
        settings["beta"] = _number(self.beta)
        try:
            if self.window_plan is not None:
                WindowPlan.load(self.window_plan, Path(model).name)
                settings["window_plan"] = str(self.window_plan)
            return TierConfig(**settings, expected_tokens=tokens)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    def _dram_bytes(self, kv_bytes: int) -> int | None:
        if self.dram_limit is None:
            return None
        if not self.dram_limit.endswith("%"):
            try:
                return parse_size(self.dram_limit, "--dram-limit")
            except DeviceError as error:
                raise typer.BadParameter(str(error)) from error
        share = _number(self.dram_limit[:-1])
        if not isinstance(share, float) or not 0 < share < math.inf:
            raise typer.BadParameter(f"--dram-limit {self.dram_limit}: write a size (64MiB) or a share (6%)")
        return round(share / 100 * kv_bytes)


def _number(text: str | None) -> float | str | None:
    """A number where it is one, else the text: what takes it refuses the words that it does not know."""
    try:
        return text if text is None else float(text)
    except ValueError:
        return text


def takes_tier_options(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command's keyword ``tiers: TierOptions`` becomes the options themselves, with ``defaults`` of its own."""
    usual = replace(TierOptions(), **defaults)
    hints = get_type_hints(TierOptions, include_extras=True)
    taken = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=getattr(usual, field.name), annotation=hints[field.name]
        )
        for field in fields(TierOptions)
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def with_options(**given: Any) -> None:
            command(tiers=TierOptions(**{option.name: given.pop(option.name) for option in taken}), **given)

        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [option for parameter in own for option in (taken if parameter.name == "tiers" else [parameter])]
        with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return with_options

    return decorate
