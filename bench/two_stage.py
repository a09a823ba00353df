"""Two-stage scoring on a real text, through the cache's own scorer and an emulated drive.

    python bench/two_stage.py OUT.json MODEL.gguf TEXT CONTEXT [--stride 1] [--steps 256] [--keys KEYS.npz]

One dense pass yields the keys of every layer that attends to the whole context and the queries of its last positions
(KEYS.npz keeps them: a long pass takes minutes). Every layer's keys are sealed onto the drive with a first stage
beside it; each step asks it, and the drive alone, which blocks to read. Reported: score blocks that the drive reads,
audits included; the true attention mass that either selection holds; summary bytes; the host time of proposing, and
the processor time of a layer's step, in which the emulated drive's own work counts.
The context is taken as whole for every step.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import nearkv_drivers
from nearkv.cache.buffers import aligned_bytes, token_view
from nearkv.cache.candidates import FirstStage, FirstStageStats
from nearkv.cache.extents import ExtentAllocator
from nearkv.cache.geometry import Geometry
from nearkv.cache.scoring import LayerScorer, Question
from nearkv.cache.selection import MOST_OF_ONE_HEAD, select
from nearkv.cache.store import LayerStore
from nearkv.files import write_json
from nearkv.selectors import SUMMARIES
from nearkv.selectors.base import exact_log_mass
from nearkv.selectors.mass import group_share
from nearkv.trace.dense import observed_attention
from nearkv_drivers.device import Device
from nearkv_drivers.wire import BLOCK_TOKENS

BUDGET, SINK, RECENT, BITS = 1024, 1, 2, 4
RECORDED = 512


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("context", type=int)
    parser.add_argument("--stride", type=int, default=1, help="every stride-th layer")
    parser.add_argument("--steps", type=int, default=256)
    parser.add_argument("--keys", type=Path, help="where the dense pass's keys and queries are kept")
    parser.add_argument("--first-stages", default=",".join(sorted(SUMMARIES)))
    return parser.parse_args()


def dense_pass(options: argparse.Namespace) -> dict[str, Any]:
    """Queries [L, H, RECORDED, d] and keys [L, KVH, n, d] of the layers that attend to everything, and the scale."""
    if options.keys is not None and options.keys.exists():
        with np.load(options.keys) as kept:
            return {name: kept[name] for name in ("q", "k", "scale")}
    path = options.model
    tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32)
    ids = tokenizer(options.text.read_text(), return_tensors="pt").input_ids[:, : options.context]
    if ids.shape[1] < options.context:
        raise SystemExit(f"{options.text} has only {ids.shape[1]} tokens")
    queries, keys, scales = [], [], []

    def done(query: torch.Tensor, key: torch.Tensor, scale: float) -> None:
        queries.append(query[:, -RECORDED:].numpy().copy())
        keys.append(key.numpy().copy())
        scales.append(scale)

    with observed_attention(model, done), torch.no_grad():
        model.base_model(ids, use_cache=False)
    found = {"q": np.stack(queries), "k": np.stack(keys), "scale": np.float64(scales[0])}
    if options.keys is not None:
        np.savez(options.keys, **found)
    return found


class Layer:
    """One layer's keys [KVH, n, d] on a drive; the newest blocks stay outside, as in the cache."""

    def __init__(self, device: Device, allocator: ExtentAllocator, keys: np.ndarray, scale: float) -> None:
        self.keys, self.scale, self.device = keys, scale, device
        blocks = keys.shape[1] // BLOCK_TOKENS
        self.sealed = np.full(len(keys), blocks - RECENT)
        self.geometry = Geometry(1, len(keys), keys.shape[2], torch.float32, BITS)
        self.allocator = allocator

    def scorer(self, first_stage: FirstStage | None) -> LayerScorer:
        """A scorer of the sealed blocks, with ``first_stage`` or without one."""
        g, count = self.geometry, int(self.sealed[0])
        store = LayerStore(0, g, self.device, self.allocator, count)
        scorer = LayerScorer(self.device, store, None, first_stage)
        blocks = aligned_bytes(g.streams * count * g.kv_block_bytes).reshape(g.streams, count, -1)
        values = torch.from_numpy(self.keys[:, : count * BLOCK_TOKENS]).unflatten(1, (count, BLOCK_TOKENS))
        token_view(blocks, g)[0, ..., 0, :] = values
        store.seal(range(g.streams), blocks, adopt=False)
        store.settle()
        return scorer

    def questions(self, queries: np.ndarray) -> list[tuple[Question, np.ndarray]]:
        """Per step (``queries`` [KVH, G, steps, d]) what is asked, and the true share of every block [KVH, blocks]."""
        group, steps = queries.shape[1:3]
        rows = queries.transpose(0, 2, 1, 3).reshape(len(queries), steps * group, -1)
        blocks = int(self.sealed[0]) + RECENT
        exact = np.stack(
            [
                exact_log_mass(rows[head], self.keys[head, : blocks * BLOCK_TOKENS], self.scale)
                for head in range(len(rows))
            ]
        ).reshape(len(rows), steps, group, -1)
        truth = group_share(exact)
        newest = np.logaddexp.reduce(exact[..., -RECENT:], axis=-1) / np.log(2) * 256
        wanted = np.full(len(rows), BUDGET // BLOCK_TOKENS - RECENT)
        return [
            (
                Question(
                    np.ascontiguousarray(queries[:, :, step]), self.sealed, wanted, MOST_OF_ONE_HEAD * wanted,
                    self.scale, np.rint(newest[:, step]).astype(np.int32),
                ),
                truth[:, step],
            )
            for step in range(steps)
        ]  # fmt: skip


def selected_mass(results: list, ask: Question, truth: np.ndarray) -> np.ndarray:
    """True mass [KVH] of what is read: the selection, sinks and newest blocks included."""
    chosen, _ = select(results, ask.sealed, ask.wanted, SINK, len(truth))
    held = np.zeros(truth.shape, bool)
    held[:, -RECENT:] = True
    for head, blocks in enumerate(chosen):
        held[head, blocks[blocks >= 0]] = True
    return np.where(held, truth, 0).sum(axis=1)


def measure(device: Device, layers: list[tuple[Layer, list]], name: str) -> dict[str, float]:
    kind, stats = SUMMARIES[name], FirstStageStats()
    one_bytes = two_bytes = summary_bytes = kv_bytes = 0
    kept, cpu = [], {"one_stage": 0.0, "two_stages": 0.0}
    for number, (layer, questions) in enumerate(layers):
        stage = FirstStage(
            kind, layer.geometry, stats, most_blocks=int(layer.sealed[0]), loss=0.01, sink_blocks=SINK, layer=number
        )
        one, two = layer.scorer(None), layer.scorer(stage)
        summary_bytes += stage.nbytes
        kv_bytes += 2 * 2 * layer.keys.size
        for ask, truth in questions:
            start, begin = device.telemetry().bytes_scored, time.process_time()
            alone = one.score(ask)
            middle, between = device.telemetry().bytes_scored, time.process_time()
            staged = two.score(ask)
            cpu["one_stage"] += between - begin
            cpu["two_stages"] += time.process_time() - between
            one_bytes += middle - start
            two_bytes += device.telemetry().bytes_scored - middle
            kept.append(selected_mass(staged, ask, truth) / selected_mass(alone, ask, truth))
    streams = [np.stack(kept[i : i + len(q)]).mean(axis=0) for i, q in zip(*_spans(layers), strict=True)]
    return {
        "bytes_factor": one_bytes / two_bytes,
        "kept_mass": float(np.concatenate(streams).mean()),
        "worst_kept_mass": float(np.concatenate(streams).min()),
        "kept_mass_by_audits": stats.kept_mass,
        "summary_share_of_kv": summary_bytes / kv_bytes,
        "summary_bytes_per_score_byte_saved": stats.summary_bytes_read / (one_bytes - two_bytes),
        "propose_us_per_layer_step": 1e6 * stats.seconds / len(kept),
        **{f"{name}_cpu_us_per_layer_step": 1e6 * seconds / len(kept) for name, seconds in cpu.items()},
    }


def _spans(layers: list[tuple[Layer, list]]) -> tuple[list[int], list[list]]:
    """Where each layer's steps begin, and its questions."""
    questions = [asked for _, asked in layers]
    return np.cumsum([0, *map(len, questions)])[:-1].tolist(), questions


def main() -> None:
    options = parse()
    found = dense_pass(options)
    keys, queries, scale = found["k"].astype(np.float32), found["q"].astype(np.float32), float(found["scale"])
    if keys.shape[2] != options.context:
        raise SystemExit(f"{options.keys} holds {keys.shape[2]} tokens, not {options.context}: remove it")
    result: dict[str, Any] = {"model": options.model.name, "text": options.text.name, "context": options.context}
    folder = options.output.absolute().parent
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.first_stages.split(","):
        with nearkv_drivers.open(f"emulated:{folder}/two-stage-{os.getpid()}.drive?ddr=1GiB") as device:
            layers, allocator = [], ExtentAllocator()
            for number in range(0, len(keys), options.stride):
                layer = Layer(device, allocator, keys[number], scale)
                grouped = queries[number].reshape(len(keys[number]), -1, *queries.shape[2:])
                layers.append((layer, layer.questions(grouped[:, :, -options.steps :])))
            result[name] = measure(device, layers, name)
        result["streams"] = len(layers) * keys.shape[1]
    write_json(options.output, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
