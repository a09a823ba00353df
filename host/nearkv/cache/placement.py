"""Which blocks are hot when decoding starts: what the prompt's last queries attended to, or the newest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from nearkv.cache.buffers import BlockBuffer
from nearkv.cache.config import TierConfig
from nearkv.tiers.warmup import MIN_QUERIES, important_blocks, prompt_shares
from nearkv_drivers.wire import BLOCK_TOKENS

PROMPT_QUERIES = 32
"""Queries looked at; with the weights of ``prompt_shares`` older ones hardly count."""


def newest_placement(lengths: list[int], kv_heads: int, share: int) -> list[npt.NDArray[np.int32]]:
    """The newest ``share`` sealed blocks of every stream of sequences with ``lengths`` tokens."""
    sealed = np.repeat([max(length, 0) // BLOCK_TOKENS for length in lengths], kv_heads).tolist()
    return [np.arange(max(count - share, 0), count, dtype=np.int32) for count in sealed]


def prompt_placement(
    query: torch.Tensor, staged: BlockBuffer, lengths: list[int], scale: float, share: int, config: TierConfig
) -> list[npt.NDArray[np.int32]]:
    """At most ``share`` sealed blocks per stream, sinks first, then by the attention of the prompt's last queries.

    ``query`` is [batch, heads, n, head_dim]; ``staged`` holds ``lengths`` tokens of each sequence from its first.
    A sequence too short to judge, or ``config.warm_up`` off, gets its newest blocks.
    """
    kv_heads = staged.geometry.kv_heads
    placement = newest_placement(lengths, kv_heads, share)
    queries = min(PROMPT_QUERIES, query.shape[2], *lengths)
    if not config.warm_up or queries < MIN_QUERIES:
        return placement
    keys, _ = staged.keys_values(max(lengths))
    for sequence, length in enumerate(lengths):
        blocks = length // BLOCK_TOKENS
        if blocks <= share:
            continue
        last = query[sequence, :, -queries:].float().cpu().unflatten(0, (kv_heads, -1))
        shares = _block_shares(last, keys[sequence, :, : blocks * BLOCK_TOKENS].float(), scale)
        chosen = important_blocks(
            prompt_shares(shares), share, sink_blocks=0, recent_blocks=config.recent_blocks, blocks=blocks
        )
        for head in range(kv_heads):
            best = chosen[head][chosen[head] >= config.sink_blocks][: max(share - config.sink_blocks, 0)]
            sinks = np.arange(min(config.sink_blocks, share), dtype=np.int32)
            placement[sequence * kv_heads + head] = np.concatenate([sinks, best])
    return placement


def _block_shares(queries: torch.Tensor, keys: torch.Tensor, scale: float) -> npt.NDArray[np.float32]:
    """Share of the attention mass per block, averaged over the group: float32 [kv_heads, queries, blocks].

    ``queries`` is [kv_heads, group, P, head_dim], ``keys`` [kv_heads, blocks * 32, head_dim]. The newest blocks, which
    some of the queries cannot see whole, are never placed, so causality is left out.
    """
    group, count = queries.shape[1:3]
    weights = torch.softmax((queries.flatten(1, 2) @ keys.transpose(1, 2)) * scale, dim=-1)
    mass = weights.unflatten(-1, (-1, BLOCK_TOKENS)).sum(dim=-1).unflatten(1, (group, count))
    shares: npt.NDArray[np.float32] = mass.mean(dim=1).numpy()
    return shares
