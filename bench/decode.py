"""Decode speed as the context grows: nearkv beside a dense StaticCache of exactly that context, in one run.

A Llama of SmolLM2-135M's shape with random weights; both caches are filled with the same random keys and values, where
nothing is selected twice for a reason. So that contexts compare, the hot pool holds the same few blocks at each of them
(``--hot-blocks`` per stream) and nearly everything selected is fetched: what is left to grow is the scoring. Real text
has hit rates above 90 % with a pool of twice a selection; ``nearkv compare`` measures that. Steps alternate, so that
ratios hold on a machine whose speed drifts. Scoring and fetching are host time inside the nearkv steps.

    python bench/decode.py [--contexts 4096,8192,16384,32768] [--layers 30] [--json build/bench/decode.json]
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, LlamaConfig, StaticCache

import nearkv
from nearkv.files import write_json
from nearkv.session import Session
from nearkv_drivers.device import ALIGNMENT

HEADS, KV_HEADS, HEAD_DIM = 9, 3, 64
WARM_UP = 4


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contexts", default="4096,8192,16384,32768", help="tokens, comma-separated")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--budget", type=int, default=1024)
    parser.add_argument("--hot-blocks", type=int, default=2, help="hot pool per stream")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="where the drive file goes")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def random_model(layers: int) -> torch.nn.Module:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=HEADS * HEAD_DIM,
        intermediate_size=1536,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        max_position_embeddings=1 << 17,
        tie_word_embeddings=True,
    )
    return nearkv.attach(AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval())


def fill(caches: list, layers: int, tokens: int) -> None:
    """The same random keys and values into every cache, one layer at a time."""
    generator = torch.Generator().manual_seed(tokens)
    common = torch.randn(1, KV_HEADS, tokens, HEAD_DIM, generator=generator)
    for layer in range(layers):
        keys = common + torch.randn(common.shape, generator=generator)
        values = torch.randn(common.shape, generator=generator)
        for cache in caches:
            if isinstance(cache, nearkv.TieredCache):
                cache.load(layer, keys, values)
            else:
                cache.layers[layer].update(keys, values)


def dram_limit(options: argparse.Namespace, config: nearkv.TierConfig) -> int:
    """Bytes for the newest tokens and ``options.hot_blocks`` per stream, and one layer's buffers."""
    block = 32 * 2 * HEAD_DIM * 4
    streams = options.layers * KV_HEADS
    selected = (options.budget - config.recent_blocks * 32) // 32
    fetched, sealed = (2 * selected + config.sink_blocks) * block, block + 2 * ALIGNMENT
    return streams * (config.recent_blocks + 1 + options.hot_blocks) * block + KV_HEADS * (fetched + sealed)


def measure(model: torch.nn.Module, context: int, options: argparse.Namespace) -> dict[str, float]:
    room = context + 2 * (options.steps + WARM_UP)
    url = f"emulated:{options.folder}/decode-{os.getpid()}.drive"
    config = nearkv.TierConfig(budget=options.budget, expected_tokens=room)
    config = dataclasses.replace(config, dram_limit=dram_limit(options, config))
    with nearkv.TieredCache(model, url, config) as cache:
        dense_cache = StaticCache(config=model.config, max_cache_len=room)
        fill([cache, dense_cache], options.layers, context)
        near, dense = Session(model, cache), Session(model, dense_cache)
        for token in range(WARM_UP):
            near.step(token)
            dense.step(token)
        near.step_seconds.clear()
        dense.step_seconds.clear()
        cache.stats.seconds.clear()
        for token in range(options.steps):
            near.step(token)
            dense.step(token)
        parts = {part: seconds / options.steps * 1e3 for part, seconds in cache.stats.seconds.items()}
        times = {
            "nearkv_ms": statistics.median(near.step_seconds) * 1e3,
            "dense_ms": statistics.median(dense.step_seconds) * 1e3,
        }
        ratios = [b / a for a, b in zip(near.step_seconds, dense.step_seconds, strict=True)]
        dram = sum(cache.dram_bytes().values()) / cache.full_kv_bytes()
        return {
            "context": context,
            **times,
            "speedup": statistics.median(ratios),
            "scored_ms": parts["score"],
            "fetch_ms": parts["fetch"],
            "hit_rate": cache.stats.hit_rate,
            "resident_kv_fraction": dram,
        }


def main() -> None:
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    model = random_model(options.layers)
    rows = [measure(model, int(context), options) for context in options.contexts.split(",")]
    table = Table(title=f"decode, {options.layers} layers, budget {options.budget}, random keys and values")
    for name in (
        "context",
        "nearkv ms",
        "dense ms",
        "dense / nearkv",
        "scoring ms",
        "fetching ms",
        "hit rate",
        "KV in DRAM",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            f"{row['context']:,}",
            f"{row['nearkv_ms']:.1f}",
            f"{row['dense_ms']:.1f}",
            f"{row['speedup']:.2f}",
            f"{row['scored_ms']:.1f}",
            f"{row['fetch_ms']:.1f}",
            f"{row['hit_rate']:.1%}",
            f"{row['resident_kv_fraction']:.1%}",
        )
    Console().print(table)
    growth = rows[-1]["nearkv_ms"] - rows[0]["nearkv_ms"]
    explained = rows[-1]["scored_ms"] - rows[0]["scored_ms"]
    print(
        f"growth of a nearkv step from {rows[0]['context']} to {rows[-1]['context']} tokens: {growth:.1f} ms; "
        f"of the scoring inside it: {explained:.1f} ms"
    )
    if options.json:
        write_json(options.json, {"rows": rows, "growth_ms": growth, "scoring_growth_ms": explained})


if __name__ == "__main__":
    main()
