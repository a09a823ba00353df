"""The comparison itself: the same prompt and targets, first through a dense StaticCache, then through nearkv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, StaticCache

from nearkv.attention import attach
from nearkv.cache.config import TierConfig
from nearkv.cache.tiered import TieredCache
from nearkv.compare.selection import selected_mass
from nearkv.compare.teacher import TeacherForced, force
from nearkv.models import TIERED, layer_plan
from nearkv.report import path_counters, run_report
from nearkv.session import Progress, Session

SAMPLED_STEPS = 8
"""Steps whose selections are compared, spread evenly over the targets."""

Bars = Callable[[str, int, TieredCache | None], AbstractContextManager[Progress]]
"""Opens a progress bar: (label, total, cache)."""


@dataclass(frozen=True)
class Comparison:
    """What to compare: ``prompt`` [n] is prefilled and ``targets`` are teacher-forced after it.

    Then, if there is a ``question`` (tokens), it is prefilled and answered greedily, up to ``answer_tokens``.
    """

    prompt: torch.Tensor
    targets: Sequence[int]
    question: Sequence[int] = ()
    answer_tokens: int = 0
    stop: Sequence[int] = ()

    @property
    def tokens(self) -> int:
        """Most tokens that a cache must hold."""
        return len(self.prompt) + len(self.targets) + len(self.question) + self.answer_tokens

    @property
    def sampled(self) -> frozenset[int]:
        """Numbers of the steps whose queries are kept."""
        steps = len(self.targets) - 1
        return frozenset(round((i + 0.5) * steps / SAMPLED_STEPS) for i in range(SAMPLED_STEPS) if steps > 0)


def compare(model: PreTrainedModel, device: str, config: TierConfig, task: Comparison, bars: Bars) -> dict[str, Any]:
    """Run ``task`` both ways; returns the report that ``nearkv compare --json`` writes."""
    attach(model)
    dense = _dense(model, config, task, bars)
    near = _near(model, device, config, task, bars)
    forced, reference = near.pop("forced"), dense.pop("forced")
    count = len(task.targets)
    agreement = sum(a == b for a, b in zip(forced.top1, reference.top1, strict=True)) / count
    return {
        "prompt_tokens": len(task.prompt),
        "tokens": count,
        "nll": {"dense": sum(reference.nll) / count, "nearkv": sum(forced.nll) / count},
        "delta_nll": (sum(forced.nll) - sum(reference.nll)) / count,
        "top1_agreement": agreement,
        "tokens_per_second": {"dense": dense["tokens_per_second"], "nearkv": near["tokens_per_second"]},
        "prefill_seconds": {"dense": dense["prefill_seconds"], "nearkv": near["prefill_seconds"]},
        "answer": {"dense": dense["answer"], "nearkv": near["answer"]},
        "selected_mass": dense["selected_mass"],
        **near["report"],
    }


def _decode(session: Session, task: Comparison, label: str, bars: Bars, sampled: frozenset[int]) -> dict[str, Any]:
    with bars(f"{label} decode", len(task.targets) - 1, None) as advance:
        forced: TeacherForced = force(session, task.targets, sampled, advance)
    result = {
        "forced": forced,
        "tokens_per_second": session.tokens_per_second,
        "prefill_seconds": session.prefill_seconds,
        "answer": [],
    }
    if task.question:
        # The last target has not been fed yet: it goes in with the question.
        session.prefill(torch.tensor([task.targets[-1], *task.question]))
        with bars(f"{label} answer", task.answer_tokens, None) as advance:
            result["answer"] = session.greedy(task.answer_tokens, task.stop, advance)
    return result


def _dense(model: PreTrainedModel, config: TierConfig, task: Comparison, bars: Bars) -> dict[str, Any]:
    cache = StaticCache(config=model.config, max_cache_len=task.tokens)
    session = Session(model, cache)
    with bars("dense prefill", len(task.prompt), None) as advance:
        session.prefill(task.prompt, advance)
    result = _decode(session, task, "dense", bars, task.sampled)
    tiered = [number for number, (kind, _) in enumerate(layer_plan(model.config)) if kind == TIERED]
    with bars("selections", len(tiered), None) as advance:
        result["selected_mass"] = selected_mass(
            result["forced"].queries,
            {number: _keys(cache, number) for number in tiered},
            _softmax_scales(model),
            config.budget,
            sink_blocks=config.sink_blocks,
            recent_blocks=config.recent_blocks + 1,
            progress=advance,
        )
    return result


def _near(model: PreTrainedModel, device: str, config: TierConfig, task: Comparison, bars: Bars) -> dict[str, Any]:
    with TieredCache(model, device, config) as cache:
        session = Session(model, cache)
        with bars("nearkv prefill", len(task.prompt), cache) as advance:
            session.prefill(task.prompt, advance)
        before = path_counters(cache)
        result = _decode(session, task, "nearkv", bars, frozenset())
        cache.settle()
        result["report"] = run_report(cache, session, before)
    return result


def _keys(cache: StaticCache, layer: int) -> torch.Tensor:
    """Keys [kv_heads, length, head_dim] of the only sequence."""
    keys: torch.Tensor = cache.layers[layer].keys[0]  # type: ignore[index, union-attr]
    return keys


def _softmax_scales(model: PreTrainedModel) -> dict[int, float]:
    """The softmax scale of every attention layer."""
    modules: list[Any] = [m for m in model.modules() if hasattr(m, "layer_idx") and hasattr(m, "scaling")]
    return {int(module.layer_idx): float(module.scaling) for module in modules}
