"""The attention step of one tiered layer: in place on the host, gathered for an accelerator.

Both start from a plan (which selected blocks are hot) and a buffer that holds the fetched ones, and both attend the
selected blocks and the newest tokens.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import scaled_dot_product_attention

from nearkv.cache.buffers import BlockBuffer
from nearkv.cache.geometry import Geometry
from nearkv.cache.pool import LayerPool, Plan
from nearkv.cache.stats import CacheStats
from nearkv.cache.tail import Tail
from nearkv_drivers import attention
from nearkv_drivers.wire import BLOCK_TOKENS, LOG_MASS_MAX, LOG_MASS_MIN


class Queries:
    """The queries of a layer's step, ``grouped`` by KV head: [batch, kv_heads, group, head_dim]."""

    def __init__(self, grouped: torch.Tensor) -> None:
        self.grouped = grouped

    @cached_property
    def rows(self) -> npt.NDArray[np.float32]:
        """The same as float32 [S, group, head_dim] in host memory."""
        queries: npt.NDArray[np.float32] = self.grouped.detach().float().cpu().flatten(0, 1).numpy()
        return queries


class DecodeAttention(Protocol):
    """Attention of one new token per sequence."""

    def tail_mass(self, queries: Queries, scale: float) -> npt.NDArray[np.int32]:
        """Log-mass (log2, 8 fraction bits) of the newest tokens: int32 [S, group]."""

    def attend(self, queries: Queries, plan: Plan, pool: LayerPool, buffer: BlockBuffer, scale: float) -> torch.Tensor:
        """Output [batch, kv_heads, group, head_dim]; ``buffer`` holds the plan's misses at their positions."""


def decode_attention(geometry: Geometry, tail: Tail, stats: CacheStats, device: torch.device) -> DecodeAttention:
    """The attention step for a layer whose model runs on ``device``."""
    if device.type == "cpu":
        return InPlaceAttention(geometry, tail, stats)
    return GatheredAttention(geometry, tail, stats, device)


class InPlaceAttention:
    """Native attention over pool slots, fetched blocks and the tail where they lie; nothing is copied."""

    def __init__(self, geometry: Geometry, tail: Tail, stats: CacheStats) -> None:
        self._geometry = geometry
        self._tail = tail
        self._stats = stats
        self._dtype = str(geometry.dtype).removeprefix("torch.")
        stream_bytes = tail.capacity * geometry.token_bytes
        self._tails = np.arange(geometry.streams, dtype=np.uint64) * np.uint64(stream_bytes)
        self._tails += np.uint64(tail.pairs.data_ptr())

    def tail_mass(self, queries: Queries, scale: float) -> npt.NDArray[np.int32]:
        """See :class:`DecodeAttention`."""
        return attention.tail_mass(queries.rows, self._tails, self._tail.streams.tokens, self._dtype, scale)

    def attend(self, queries: Queries, plan: Plan, pool: LayerPool, buffer: BlockBuffer, scale: float) -> torch.Tensor:
        """See :class:`DecodeAttention`."""
        with self._stats.timed("attend"):
            blocks = pool.locate(plan, buffer.grid)
            output = attention.attend(queries.rows, blocks, self._tails, self._tail.streams.tokens, self._dtype, scale)
            return torch.from_numpy(output).view(queries.grouped.shape).to(queries.grouped.dtype)


class GatheredAttention:
    """SDPA on ``device``: hot and fetched blocks side by side in pinned memory, copied there beside the tail."""

    def __init__(self, geometry: Geometry, tail: Tail, stats: CacheStats, device: torch.device) -> None:
        self._geometry = geometry
        self._tail = tail
        self._stats = stats
        self._device = device

    def tail_mass(self, queries: Queries, scale: float) -> npt.NDArray[np.int32]:
        """See :class:`DecodeAttention`."""
        grouped, parts = queries.grouped, []
        for sequence in range(self._geometry.batch):
            keys = self._tail.window(sequence)[:, :, 0]
            scores = (grouped[sequence].float() @ keys.float().transpose(1, 2)) * scale
            parts.append(torch.logsumexp(scores, dim=-1))
        units = torch.cat(parts) * (math.log2(math.e) * 256)
        return units.round().clamp(LOG_MASS_MIN, LOG_MASS_MAX).to(torch.int32).cpu().numpy()

    def attend(self, queries: Queries, plan: Plan, pool: LayerPool, buffer: BlockBuffer, scale: float) -> torch.Tensor:
        """See :class:`DecodeAttention`."""
        with self._stats.timed("gather"):
            hit, landing = plan.slot >= 0, buffer.grid
            places = landing[:, : hit.shape[1]][hit]
            attention.copy_blocks(pool.locate(plan, landing)[hit], places, pool.block_bytes)
            keys, values, mask = self._inputs(buffer, plan.selected)
        with self._stats.timed("attend"):
            return scaled_dot_product_attention(queries.grouped, keys, values, attn_mask=mask, scale=scale)

    def _inputs(
        self, buffer: BlockBuffer, selected: npt.NDArray[np.int32]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """K and V [batch, kv_heads, tokens, head_dim] of the selected blocks and the newest tokens, and their mask."""
        g, span, counts = self._geometry, selected.shape[1] * BLOCK_TOKENS, self._tail.counts
        newest = self._tail.pairs[:, :, : max(counts)]
        keys, values = (
            torch.cat([part.to(self._device, non_blocking=True), newest[..., which, :]], dim=2)
            for which, part in enumerate(buffer.keys_values(span))
        )
        if self._device.type == "cuda":
            buffer.copies_started()
        if (selected >= 0).all() and len(set(counts)) == 1:
            return keys, values, None
        mask = np.zeros((g.batch, g.kv_heads, 1, span + max(counts)), bool)
        mask[..., 0, :span] = np.repeat(selected >= 0, BLOCK_TOKENS, axis=1).reshape(g.batch, g.kv_heads, span)
        for sequence, count in enumerate(counts):
            mask[sequence, :, 0, span : span + count] = True
        return keys, values, torch.from_numpy(mask).to(self._device)
