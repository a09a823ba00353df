"""Two-stage scoring on a real text: device bytes saved, mass kept, summary size, per first stage.

usage: python bench/two_stage.py OUT.json MODEL.gguf TEXT CONTEXT [LAYER_STRIDE]

One dense pass yields the queries of the last 256 positions. Every stream steers its own share of candidates to a
stated loss of 1 %; audits, which score everything, are counted. Scores are exact: what is measured is the first stage.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from nearkv.selectors import create
from nearkv.selectors.base import exact_log_mass
from nearkv.selectors.mass import choose, group_share
from nearkv.selectors.two_stage import CandidateShare, candidates, runs
from nearkv.trace.dense import observed_attention
from nearkv_drivers.wire import BLOCK_TOKENS

STEPS, BUDGET, SINK, RECENT = 256, 1024, 1, 2
FIRST_STAGES = ("quest_int8", "mean_key", "mean_variance")


def stream(queries: np.ndarray, keys: np.ndarray, scale: float, name: str) -> dict[str, float]:
    """One stream: ``queries`` [STEPS, G, d], ``keys`` [n, d]; the context is taken as whole for every step."""
    rows = queries.reshape(-1, queries.shape[2])
    truth = group_share(exact_log_mass(rows, keys, scale).reshape(len(queries), queries.shape[1], -1))
    summary = create(name, keys)
    estimate = group_share(summary.estimate(rows, scale).reshape(truth.shape[0], queries.shape[1], -1))
    tokens, count = np.array([len(keys)]), np.array([truth.shape[1]])
    share, kept, scored, pieces = CandidateShare(), [], 0, []
    for step in range(len(queries)):
        one = choose(truth[step : step + 1], tokens, BUDGET // BLOCK_TOKENS, SINK, RECENT)
        proposed = candidates(estimate[step : step + 1], count, share.fraction, SINK, RECENT)
        two = choose(np.where(proposed, truth[step], 0), tokens, BUDGET // BLOCK_TOKENS, SINK, RECENT)
        best, found = float(truth[step][one[0]].sum()), float(truth[step][two[0]].sum())
        if share.audit_due():
            share.audited(best, found)
            found, blocks = best, truth.shape[1]
        else:
            blocks = int(proposed.sum())
            pieces.append(len(runs(proposed[0])))
        kept.append(found / best)
        scored += blocks
    return {
        "kept_mass": float(np.mean(kept)),
        "bytes_factor": len(queries) * truth.shape[1] / scored,
        "scored_share": scored / (len(queries) * truth.shape[1]),
        "runs_per_request": float(np.mean(pieces)),
        "summary_share_of_kv": summary.nbytes / (2 * 2 * keys.size),
    }


def main(output: str, model_file: str, text_file: str, context: str, stride: str = "1") -> None:
    """Measure and write ``output``."""
    path = Path(model_file)
    tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32)
    ids = tokenizer(Path(text_file).read_text(), return_tensors="pt").input_ids[:, : int(context)]
    if ids.shape[1] < int(context):
        sys.exit(f"{text_file} has only {ids.shape[1]} tokens")
    layers: list[dict[str, list[dict[str, float]]]] = []
    seen = 0

    def done(query: torch.Tensor, key: torch.Tensor, scale: float) -> None:
        nonlocal seen
        seen += 1
        if (seen - 1) % int(stride):
            return
        whole = key.shape[1] // BLOCK_TOKENS * BLOCK_TOKENS
        grouped = query[:, -STEPS:].float().numpy().reshape(key.shape[0], -1, STEPS, key.shape[2])
        layers.append({
            name: [
                stream(grouped[head].transpose(1, 0, 2), key[head, :whole].float().numpy(), scale, name)
                for head in range(len(key))
            ]
            for name in FIRST_STAGES
        })  # fmt: skip

    with observed_attention(model, done), torch.no_grad():
        model.base_model(ids, use_cache=False)
    result: dict[str, Any] = {
        "model": path.name,
        "context": int(context),
        "streams": len(layers) * len(layers[0]["mean_key"]),
    }
    for name in FIRST_STAGES:
        found = [one for layer in layers for one in layer[name]]
        result[name] = {field: float(np.mean([one[field] for one in found])) for field in found[0]}
        result[name]["bytes_factor"] = 1 / result[name]["scored_share"]
        result[name]["worst_kept_mass"] = min(one["kept_mass"] for one in found)
    text = json.dumps(result, indent=1)
    Path(output).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    main(*sys.argv[1:])
