"""Drive reads and decode time in the live cache: blocks in order of position, and packed by what is selected together.

usage: python bench/layout.py OUT.json CONTEXT STEPS CHUNK DRAM,DRAM.. TEXT...

Each DRAM is a limit such as 10%, or "default"; CHUNK is the number of tokens per piece of the prompt. All caches of a
text take every step one after the other, so that their ratios hold on a machine whose speed drifts; that they attend to
the same, to the bit, is checked at every layer of every step.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from transformers import Cache

import nearkv
from nearkv import session as sessions
from nearkv.cache import layer as tiered
from nearkv.cli.options import default_device
from nearkv.cli.tier_options import TierOptions
from nearkv.files import write_json
from nearkv.loading import LoadedModel, load
from nearkv.report import kv_bytes_per_token
from nearkv.tiers.layout import LAYOUTS


class Lockstep(tiered.TieredLayer):
    """One layer of several caches, the first of which answers for all.

    ``seconds`` is what each of them took to attend: processor time in a prefill, elapsed time in decode.
    """

    def __init__(self, members: list[tiered.TieredLayer], seconds: list[float]) -> None:
        self.members, self.seconds, self.turn = members, seconds, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.members[0], name)

    def update(self, *states: Any, **kwargs: Any) -> Any:
        for member in self.members:
            member.update(*states, **kwargs)
        return self, self

    def attend(self, module: torch.nn.Module, query: torch.Tensor, mask: Any, scale: float) -> torch.Tensor:
        """Every member's turn, in decode with another one first at every step."""
        prefill, count = query.shape[2] > 1, len(self.members)
        clock = time.thread_time if prefill else time.perf_counter
        self.turn = 0 if prefill else (self.turn + 1) % count
        first = None
        for at in (*range(self.turn, count), *range(self.turn)):
            with nullcontext() if first is None or not prefill else known_dense(first):
                start = clock()
                output = self.members[at].attend(module, query, mask, scale)
                self.seconds[at] += clock() - start
            first = output if first is None else first
            assert torch.equal(output, first), "placement changed what attention reads"
        return first


def known_dense(output: torch.Tensor) -> AbstractContextManager[Any]:
    """Dense attention of a prefill is the same for all caches: computed once, it is given to the others."""
    return patch.object(tiered, "sdpa_attention_forward", return_value=(output, None))


class Timed:
    """Processor time that ordering blocks took in all."""

    def __init__(self) -> None:
        self.seconds, self._order = 0.0, tiered.drive_order

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = time.thread_time()
        order = self._order(*args, **kwargs)
        self.seconds += time.thread_time() - start
        return order


def measure(loaded: LoadedModel, text: Path, context: int, steps: int, drams: list[str]) -> dict[str, Any]:
    """Both layouts with every DRAM limit on one text."""
    ids = loaded.encode(text.read_text(encoding="utf-8"))[: context + steps]
    if len(ids) < context + steps:
        sys.exit(f"{text} has only {len(ids)} tokens")
    size = {"model": "", "tokens": context + steps, "kv_bytes_per_token": kv_bytes_per_token(loaded.model.config)}
    kinds = [(dram, layout) for dram in drams for layout in LAYOUTS]
    seconds, timed = [0.0] * len(kinds), Timed()
    with ExitStack() as stack:
        caches = []
        for dram, layout in kinds:
            config = TierOptions(dram_limit=None if dram == "default" else dram, layout=layout).config(**size)
            device = f"{default_device()}-{len(caches)}"
            caches.append(stack.enter_context(nearkv.TieredCache(loaded.model, device, config)))
        layers = [Lockstep(list(members), seconds) for members in zip(*(cache.layers for cache in caches), strict=True)]
        session = sessions.Session(loaded.model, Cache(layers=layers))
        with patch.object(tiered, "drive_order", timed):
            start = time.thread_time()
            session.prefill(torch.tensor(ids[:context]))
            alone = time.thread_time() - start - sum(seconds[1:])
        for cache in caches:
            cache.warm_up()
        took = decode(session, ids[context:], seconds)
        rows = [row(cache, *each) | {"dram": dram, "layout": layout}
                for (dram, layout), cache, each in zip(kinds, caches, took, strict=True)]  # fmt: skip
    return {"prefill_seconds": alone, "ordering_seconds": timed.seconds / len(drams), "caches": rows}


def decode(session: sessions.Session, tokens: list[int], seconds: list[float]) -> list[tuple[float, float, float]]:
    """Feed ``tokens``; per cache the medians of the seconds of its part of a step, of a step that had only that, and of
    that step's ratio to the same step of the cache with the same DRAM limit and the first layout."""
    parts = []
    for token in tokens:
        seconds[:] = [0.0] * len(seconds)
        session.step(token)
        rest = session.step_seconds[-1] - sum(seconds)
        steps = [took + rest for took in seconds]
        first = [steps[at - at % len(LAYOUTS)] for at in range(len(steps))]
        parts.append(list(zip(seconds, steps, (a / b for a, b in zip(steps, first, strict=True)), strict=True)))
    return [tuple(median(column) for column in zip(*of, strict=True)) for of in zip(*parts, strict=True)]


def row(cache: nearkv.TieredCache, took: float, step: float, ratio: float) -> dict[str, float]:
    """One cache's decode, in which a ``step`` takes so many seconds and the cache ``took`` its part of it."""
    stats, pools = cache.stats, [layer.pool.quota for layer in cache.tiered_layers]
    return {
        "hot_blocks_per_stream": float(sum(quota.sum() for quota in pools) / sum(len(quota) for quota in pools)),
        "hit_rate": stats.hit_rate,
        "fetched_per_step": stats.misses / stats.steps,
        "reads_per_step": stats.reads / stats.steps,
        "reads_per_fetched_block": stats.reads / max(stats.misses, 1),
        "fetch_ms": 1e3 * stats.seconds["fetch"] / stats.steps,
        "attend_ms": 1e3 * took,
        "tokens_per_second": 1 / step,
        "step_of_the_first_layout": ratio,
    }


def main(output: str, context: str, steps: str, chunk: str, drams: str, *texts: str) -> None:
    """Measure all of ``texts`` and write ``output``."""
    sessions.PREFILL_CHUNK = int(chunk)
    loaded = load()
    nearkv.attach(loaded.model)
    result: dict[str, Any] = {"context": int(context), "steps": int(steps), "chunk": int(chunk)}
    for text in map(Path, texts):
        result[text.name] = measure(loaded, text, int(context), int(steps), drams.split(","))
        write_json(output, result)
        print(text.name, json.dumps(result[text.name], indent=1), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 7:
        sys.exit(__doc__)
    main(*sys.argv[1:])
