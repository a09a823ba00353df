"""What cold blocks in 8 or 4 bits cost in text quality: teacher-forced, dense attention, 80 % of the context cold.

usage: python bench/hybrid_precision.py OUT.json MODEL.gguf TEXT CONTEXT [TOKENS]
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from nearkv.tiers.alpha import ALPHA
from nearkv.tiers.hybrid import RowCodec
from nearkv_drivers.wire import BLOCK_TOKENS


def cool(cache: Any, cold: slice, bits: int) -> float:
    """Send K and V of the tokens in ``cold`` through the codec; returns cold bytes against float16."""
    for layer in cache.layers:
        for rows in (layer.keys, layer.values):
            codec = RowCodec(rows.shape[-1], bits)
            rows[:, :, cold] = codec.decode(codec.encode(rows[:, :, cold])).to(rows.dtype)
    return codec.row_bytes / (2 * codec.head_dim)


@torch.no_grad()
def main(output: str, model_file: str, text_file: str, context: str, tokens: str = "256") -> None:
    """Measure and write ``output``."""
    path, n, steps = Path(model_file), int(context), int(tokens)
    tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32)
    ids = tokenizer(Path(text_file).read_text(), return_tensors="pt").input_ids[:, : n + steps]
    if ids.shape[1] < n + steps:
        sys.exit(f"{text_file} has only {ids.shape[1]} tokens")
    prompt = model.base_model(ids[:, :n], use_cache=True).cache
    cold = slice(BLOCK_TOKENS, int(n * (1 - ALPHA)) // BLOCK_TOKENS * BLOCK_TOKENS)
    result: dict[str, Any] = {"model": path.name, "context": n, "tokens": steps, "cold_tokens": cold.stop - cold.start}
    reference = None
    for bits in (0, 8, 4):
        cache = copy.deepcopy(prompt)
        size = cool(cache, cold, bits) if bits else 1.0
        scores = torch.log_softmax(model(ids[:, n:], cache=cache).logits[0, :-1], dim=-1)
        nll = -float(scores.gather(1, ids[0, n + 1 :, None]).mean())
        best = scores.argmax(dim=-1)
        if reference is None:
            reference = (nll, best)
        agreement = float((best == reference[1]).float().mean())
        result[f"int{bits}" if bits else "full"] = {
            "nll": nll, "delta_nll": nll - reference[0], "top1_agreement": agreement, "cold_bytes_of_float16": size
        }  # fmt: skip
    text = json.dumps(result, indent=1)
    Path(output).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    main(*sys.argv[1:])
