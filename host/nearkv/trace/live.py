"""A trace of what a running cache selects: to compare what a policy did in a cache with a replay of the same steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearkv.cache import observation
from nearkv.cache.observation import DecodeStep, PromptEnd
from nearkv.cache.tiered import TieredCache
from nearkv.tiers.warmup import prompt_shares
from nearkv.trace.format import Trace, TraceInfo
from nearkv_drivers.wire import BLOCK_TOKENS

Blocks = npt.NDArray[np.int32]
Priorities = npt.NDArray[np.uint32]


class _Step(NamedTuple):
    """What a policy is shown of one step of one layer: per stream, -1 padded, best first."""

    ranked: tuple[Blocks, Priorities]
    newest: Blocks
    selected: tuple[Blocks, Priorities]


class LiveRecorder:
    """Watches ``cache`` from now on; :meth:`trace` makes a trace of what it saw.

    For a cache of one sequence, longer than what its budget selects. The selections are as the cache made them: of
    differing size per stream, because the KV heads of a layer share a budget.
    """

    def __init__(self, cache: TieredCache) -> None:
        self._cache = cache
        self._steps: dict[int, list[_Step]] = {}
        self._prompt: list[list[_Step]] = []
        self._shares: list[npt.NDArray[np.float32]] = []
        cache.watch(self)

    def step(self, layer: int, step: DecodeStep) -> None:
        """See Watcher."""
        seen = _Step(
            observation.ranking(step.results), step.newest.copy(), (step.selected.copy(), step.priority.copy())
        )
        self._steps.setdefault(layer, []).append(seen)

    def prompt(self, layer: int, end: PromptEnd) -> None:
        """See Watcher."""
        newest, wanted = end.newest.blocks, end.wanted
        self._prompt.append(
            [
                _Step((blocks, priority), newest, (blocks[:, :wanted], priority[:, :wanted]))
                for blocks, priority in observation.prompt_rankings(end)
            ]
        )
        self._shares.append(end.shares)

    def trace(self, *, model: str = "", text: str = "") -> Trace:
        """What the cache selected since its prompt's end, behind the prompt's last queries if it looked at them."""
        cache, layers = self._cache, self._cache.tiered_layers
        sinks, recent = cache.config.sink_blocks, cache.config.recent_blocks + 1
        by_layer = [steps for _, steps in sorted(self._steps.items())]
        steps = [list(step) for step in zip(*self._prompt, strict=True)]
        prompt_steps = len(steps)
        steps += [list(step) for step in zip(*by_layer, strict=True)]
        chosen = max(one.selected[0].shape[1] for step in steps[prompt_steps:] for one in step) - sinks
        rows = [[_row(one, sinks, recent, chosen) for one in step] for step in steps]
        streams = len(rows[0][0][0])
        width = max(blocks.shape[1] for step in rows for blocks, _ in step)
        ranked = np.full((len(rows), len(layers), streams, width), -1, np.int32)
        priority = np.zeros(ranked.shape, np.uint32)
        for t, step in enumerate(rows):
            for layer, (blocks, found) in enumerate(step):
                ranked[t, layer, :, : blocks.shape[1]] = blocks
                priority[t, layer, :, : blocks.shape[1]] = found
        tokens = cache.get_seq_length()
        shares = np.zeros((len(layers), streams, -(-tokens // BLOCK_TOKENS)), np.float32)
        for layer, each in enumerate(self._shares):
            shares[layer, :, : each.shape[2]] = prompt_shares(each)
        info = TraceInfo(
            model=model, text=text, scorer=f"int{cache.bits}", layers=len(layers), streams=streams,
            block_tokens=BLOCK_TOKENS, sink_blocks=sinks, recent_blocks=recent, selected_blocks=chosen,
            kv_block_bytes=layers[0].geometry.kv_block_bytes, prompt_steps=prompt_steps,
        )  # fmt: skip
        visible = np.arange(tokens - len(rows) + 1, tokens + 1, dtype=np.uint32)
        return Trace(info, ranked, priority, visible, shares)


def _row(step: _Step, sinks: int, recent: int, chosen: int) -> tuple[Blocks, Priorities]:
    """A trace's ranking of one layer, [S, m]: sinks, newest, selected (``chosen`` columns), then what was ranked."""
    (ranked, ranked_priority), newest, (selected, priority) = step
    streams = len(selected)
    always = np.full((streams, sinks + recent), -1, np.int32)
    always[:, :sinks] = np.arange(sinks)
    always[:, sinks : sinks + newest.shape[1]] = newest
    always_priority = np.zeros(always.shape, np.uint32)
    picked, found = np.full((streams, chosen), -1, np.int32), np.zeros((streams, chosen), np.uint32)
    for stream, row in enumerate(selected):
        mine = row >= sinks
        picked[stream, : mine.sum()], found[stream, : mine.sum()] = row[mine], priority[stream, mine]
        always_priority[stream, :sinks] = priority[stream, (row >= 0) & ~mine]
    return (
        np.concatenate([always, picked, ranked], axis=1),
        np.concatenate([always_priority, found, ranked_priority], axis=1),
    )
