"""A synthetic trace small enough to reason about: drifting popularity, as attention has it."""

import numpy as np

from nearkv.tiers.warmup import prompt_shares
from nearkv.trace.format import Trace, TraceInfo
from nearkv.trace.rank import rank


def synthetic(seed=0, layers=2, streams=2, steps=60, prompt_steps=16, first_tokens=32 * 60 + 1, selected=6, width=24):
    """A trace whose blocks' shares follow a slow random walk, with a few blocks that matter throughout."""
    rng = np.random.default_rng(seed)
    total, rows = prompt_steps + steps, layers * streams
    tokens = np.arange(first_tokens - prompt_steps, first_tokens + steps)
    count = -(-tokens // 32)
    walk = rng.normal(size=(rows, int(count.max()))) * 2
    shares = []
    for _ in range(total):
        walk = 0.9 * walk + 0.5 * rng.normal(size=walk.shape)
        weight = np.exp(walk + np.where(np.arange(walk.shape[1]) % 17 == 3, 1.5, 0))
        shares.append(weight / weight.sum(axis=1, keepdims=True))
    share = np.stack(shares).astype(np.float32)
    pairs = [rank(share[t], np.full(rows, count[t]), 1, 2, width, 3) for t in range(total)]
    shape = (total, layers, streams, width)
    info = TraceInfo("model", "text", "exact", layers, streams, 32, 1, 2, selected, 4096, prompt_steps)
    prompt = prompt_shares(share[:prompt_steps].transpose(1, 0, 2)).reshape(layers, streams, -1)
    return Trace(
        info,
        np.stack([p[0] for p in pairs]).reshape(shape),
        np.stack([p[1] for p in pairs]).reshape(shape),
        tokens.astype(np.uint32),
        prompt,
    )
