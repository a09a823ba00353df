"""Every placement policy in a running cache: the same text through one ``nearkv.TieredCache`` per policy, in one run.

The prompt's KV is computed once, densely, and loaded into every cache; the prompt's last 64 tokens then go through each
of them, so that its warm-up sees their queries. The text's own continuation follows, token by token, through the dense
cache and all others in turn: what a policy costs in time is a ratio within the run. The pools hold a stated share of
the prompt's KV, sink and newest tokens included; one layer's buffers are beside it. Reported per policy: hits as the
cache counts them, the hits of a replay of the very selections that it made (they agree) and the optimum's, what moved,
drive reads and bytes. Selections and logits must not depend on the policy: if they do, the bench says so and fails.

    python bench/live_policies.py MODEL TEXT [TEXT ...] [--context 8192] [--steps 64] [--json build/bench/policies.json]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from transformers import DynamicCache, StaticCache

import nearkv
from nearkv.files import write_json
from nearkv.loading import LoadedModel, load
from nearkv.models import TIERED, layer_plan
from nearkv.policy import create, names
from nearkv.report import path_counters
from nearkv.session import Session
from nearkv.trace import Trace, replay
from nearkv.trace.belady import Belady
from nearkv.trace.live import LiveRecorder
from nearkv.trace.replay import COLD_STEPS
from nearkv_drivers.device import ALIGNMENT
from nearkv_drivers.wire import BLOCK_TOKENS

LOOKED_AT = 64
"""Prompt tokens that every cache sees itself: more than its warm-up looks at."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="model folder, .gguf file or cached hub id")
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--context", type=int, default=8192, help="tokens of prompt")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--budget", type=int, default=1024)
    parser.add_argument("--dram-fraction", type=float, default=0.2, help="share of the prompt's KV in DRAM")
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="where the drive files go")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def config_of(policy: str, loaded: LoadedModel, options: argparse.Namespace) -> nearkv.TierConfig:
    """A DRAM limit that leaves the pool what the share of the prompt's KV leaves beside the newest tokens."""
    text = loaded.model.config.get_text_config(decoder=True)
    heads, size = (
        text.num_key_value_heads,
        getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads,
    )
    config = nearkv.TierConfig(budget=options.budget, policy=policy)
    block = BLOCK_TOKENS * 2 * size * loaded.model.dtype.itemsize
    hot = int(-(-options.context // BLOCK_TOKENS) * options.dram_fraction)
    selected = options.budget // BLOCK_TOKENS - config.recent_blocks
    buffers = heads * ((2 * selected + config.sink_blocks) * block + block + 2 * ALIGNMENT)
    return nearkv.TierConfig(
        budget=options.budget,
        policy=policy,
        dram_limit=text.num_hidden_layers * heads * hot * block + buffers,
        expected_tokens=options.context + options.steps,
    )


def dense_prefill(loaded: LoadedModel, prompt: torch.Tensor, room: int) -> StaticCache:
    """A dense cache of ``room`` tokens with the KV of ``prompt``, computed in one pass: no chunk attends to padding."""
    grown, fixed = DynamicCache(), StaticCache(config=loaded.model.config, max_cache_len=room)
    with torch.inference_mode():
        loaded.model(prompt[None], cache=grown, use_cache=True, logits_to_keep=1)
        for source, target in zip(grown.layers, fixed.layers, strict=True):
            target.update(source.keys, source.values)
    return fixed


def take_over(session: Session, dense: StaticCache, prompt: torch.Tensor) -> None:
    """The prompt's KV from ``dense``, but for the last tokens, which the session's cache sees itself."""
    assert isinstance(session.cache, nearkv.TieredCache)
    count = len(prompt) - LOOKED_AT
    for number, layer in enumerate(dense.layers):
        session.cache.load(number, layer.keys[:, :, :count], layer.values[:, :, :count])
    session.prefill(prompt[count:])


def measure(loaded: LoadedModel, text: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One text through the dense cache and through one cache per policy."""
    ids = loaded.encode(text.read_text())
    if len(ids) < options.context + options.steps:
        raise SystemExit(f"{text} holds {len(ids)} tokens; {options.context + options.steps} were asked for")
    prompt, forced = torch.tensor(ids[: options.context]), ids[options.context : options.context + options.steps]
    dense = Session(loaded.model, dense_prefill(loaded, prompt, len(prompt) + len(forced)))
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder))
        sessions, recorders, before, quotas = {}, {}, {}, {}
        for name in names():
            cache = nearkv.TieredCache(
                loaded.model, f"emulated:{folder}/{name}.drive", config_of(name, loaded, options)
            )
            sessions[name] = Session(loaded.model, stack.enter_context(cache))
            recorders[name] = LiveRecorder(cache)
            take_over(sessions[name], dense.cache, prompt)
            quotas[name] = np.stack([layer.pool.quota for layer in cache.tiered_layers])
            before[name] = path_counters(cache)
        for token in forced:
            dense.step(token)
            logits = {name: session.step(token) for name, session in sessions.items()}
            if any(not torch.equal(each, logits[names()[0]]) for each in logits.values()):
                raise SystemExit("the logits depend on the policy: that is a defect")
        traces = {
            name: recorder.trace(model=loaded.model.name_or_path, text=text.name)
            for name, recorder in recorders.items()
        }
        first = next(iter(traces.values()))
        if any((trace.ranked != first.ranked).any() for trace in traces.values()):
            raise SystemExit("the selections depend on the policy: that is a defect")
        rows = {
            name: row(session, dense, traces[name], quotas[name], before[name]) for name, session in sessions.items()
        }
    return {"text": text.name, "dense_tokens_per_second": dense.tokens_per_second, "policies": rows}


def row(session: Session, dense: Session, trace: Trace, quota: np.ndarray, before: dict[str, int]) -> dict[str, float]:
    """What one policy did, beside a replay of what its cache selected from a pool of ``quota`` [L, S] at first."""
    cache = session.cache
    assert isinstance(cache, nearkv.TieredCache)
    stats, steps = cache.stats, len(session.step_seconds)
    start: dict[str, Any] = {"pool": quota - cache.config.sink_blocks, "warm": True}
    start["redivide"] = cache.config.redivide
    replayed = replay(trace, create(cache.config.policy), **start)
    best = replay(trace, Belady(trace, 0), **start)
    if (stats.hits, stats.promotions, stats.demotions) != (replayed.hits, replayed.promotions, replayed.demotions):
        raise SystemExit(f"{cache.config.policy}: the cache and a replay of its selections disagree: that is a defect")
    ratios = [b / a for a, b in zip(session.step_seconds, dense.step_seconds, strict=True)]
    return {
        "hit_rate": stats.hit_rate,
        "replay_hit_rate": replayed.hit_rate,
        "belady_hit_rate": best.hit_rate,
        "first_misses": replayed.cold_misses,
        "promotions": stats.promotions,
        "demotions": stats.demotions,
        "warm_blocks": stats.warm_blocks,
        "drive_reads_per_block": stats.reads / max(stats.misses, 1),
        "bytes_from_drive_per_token": (path_counters(cache)["drive_to_host"] - before["drive_to_host"]) / steps,
        "every_selection_bytes_per_token": (stats.hits + stats.misses) * trace.info.kv_block_bytes / steps,
        "tokens_per_second": session.tokens_per_second,
        "speed_over_dense": statistics.median(ratios),
        "resident_kv_fraction": sum(cache.dram_bytes().values()) / cache.full_kv_bytes(),
    }


def show(console: Console, result: dict[str, Any], options: argparse.Namespace) -> None:
    rows = sorted(result["policies"].items(), key=lambda item: -item[1]["hit_rate"])
    some = rows[0][1]
    table = Table(
        title=f"{result['text']}: {options.context:,} tokens of prompt, {options.steps} steps, "
        f"{options.dram_fraction:.0%} of the prompt's KV in DRAM, warm",
        box=SIMPLE_HEAD,
        padding=(0, 0),
        caption=f"optimum {some['belady_hit_rate']:.4f}; dense {result['dense_tokens_per_second']:.2f} tokens/s; "
        f"every selection afresh: {some['every_selection_bytes_per_token'] / 2**20:.2f} MiB/token\n"
        f"{COLD_STEPS} steps: blocks missed in the first of them; reads: drive reads per fetched block; "
        "MiB: from the drive per token",
    )
    table.add_column("policy")
    for column in (
        "hits", "replay", f"{COLD_STEPS} steps", "promoted", "demoted", "reads", "MiB", "tokens/s", "/ dense",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for name, found in rows:
        table.add_row(
            name,
            f"{found['hit_rate']:.4f}",
            f"{found['replay_hit_rate']:.4f}",
            f"{found['first_misses']:,}",
            f"{found['promotions']:,}",
            f"{found['demotions']:,}",
            f"{found['drive_reads_per_block']:.2f}",
            f"{found['bytes_from_drive_per_token'] / 2**20:.2f}",
            f"{found['tokens_per_second']:.2f}",
            f"{found['speed_over_dense']:.2f}",
        )
    console.print(table)


def main() -> None:
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    loaded, console = load(options.model), Console()
    nearkv.attach(loaded.model)
    if any(kind != TIERED for kind, _ in layer_plan(loaded.model.config)):
        raise SystemExit(f"{options.model} has sliding-window layers: their KV cannot be taken over from a dense cache")
    settings = {key: getattr(options, key) for key in ("model", "context", "steps", "budget", "dram_fraction")}
    results: list[dict[str, Any]] = []
    for text in options.texts:
        results.append(measure(loaded, text, options))
        show(console, results[-1], options)
        if options.json:
            write_json(options.json, {**settings, "texts": results})


if __name__ == "__main__":
    main()
