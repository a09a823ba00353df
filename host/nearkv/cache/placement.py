"""Which blocks are hot when decoding starts: what the prompt's last queries attended to, or the newest.

The drive scores the prompt's last queries as it scores a decode step's, once the prompt is complete: no chunk of a
prefill is judged in vain, and no key has to come back to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from nearkv.cache.attend import Queries
from nearkv.cache.scoring import LayerScorer
from nearkv.cache.tail import StreamWindows
from nearkv.policy.pin_newest import newest_first, pinned_blocks
from nearkv.tiers.warmup import MIN_QUERIES, important_blocks, prompt_shares

PROMPT_QUERIES = 32
"""Queries looked at; with the weights of ``prompt_shares`` older ones hardly count."""

TailMass = Callable[[Queries, float], npt.NDArray[np.int32]]
"""Log-mass int32 [S, group] of the newest tokens under queries and a softmax scale."""


class PromptQueries:
    """The last queries of a prompt and their softmax scale, across the chunks of its prefill."""

    def __init__(self) -> None:
        self._last: torch.Tensor | None = None
        self.scale = 1.0

    def keep(self, query: torch.Tensor, scale: float) -> None:
        """Add a chunk's ``query`` [batch, heads, n, head_dim]."""
        last = query[:, :, -PROMPT_QUERIES:].detach()
        if self._last is not None and last.shape[2] < PROMPT_QUERIES:
            last = torch.cat([self._last, last], dim=2)[:, :, -PROMPT_QUERIES:]
        self._last, self.scale = last.clone(), scale

    def last(self, kv_heads: int, tokens: int) -> torch.Tensor | None:
        """The queries [batch, kv_heads, group, P, head_dim]; None if there are too few to judge by.

        ``tokens`` is the length of the shortest sequence: what lies before it are queries of padding.
        """
        if self._last is None or min(self._last.shape[2], tokens) < MIN_QUERIES:
            return None
        queries: torch.Tensor = self._last[:, :, -min(self._last.shape[2], tokens) :].unflatten(1, (kv_heads, -1))
        return queries

    def take(self, kv_heads: int, tokens: int) -> torch.Tensor | None:
        """What :meth:`last` gives, and forget it."""
        queries = self.last(kv_heads, tokens)
        self._last = None
        return queries


def newest_placement(newest: StreamWindows, quota: npt.NDArray[np.int64], sinks: int) -> npt.NDArray[np.int32]:
    """Sinks, then the newest blocks before the windows, ``quota`` [S] of them: int32 [S, n], -1 padded."""
    return _with_sinks(newest, quota, sinks, [np.arange(first)[::-1] for first in newest.first_block.tolist()])


def prompt_placement(
    shares: npt.NDArray[np.float32],
    newest: StreamWindows,
    quota: npt.NDArray[np.int64],
    sinks: int,
    pin_newest: float = 0.0,
) -> npt.NDArray[np.int32]:
    """Sinks, then the blocks that the prompt's last queries gave most to: int32 [S, n], -1 padded.

    ``shares`` [S, P, blocks] are those of :func:`prompt_block_shares`. Of the slots behind the sinks, a share of
    ``pin_newest`` is for the newest blocks.
    """
    mean = prompt_shares(shares)
    pinned = pinned_blocks(pin_newest, quota - sinks).tolist()
    ranked = []
    for stream, blocks in enumerate(newest.first_block.tolist()):
        row = important_blocks(
            mean[stream][None], int(quota[stream]), sink_blocks=sinks, recent_blocks=0, blocks=blocks
        )
        ranked.append(newest_first(row[0], blocks - 1, pinned[stream], sinks))
    return _with_sinks(newest, quota, sinks, ranked)


def prompt_block_shares(
    scorer: LayerScorer, queries: torch.Tensor, newest: StreamWindows, scale: float, tail_mass: TailMass
) -> npt.NDArray[np.float32]:
    """Share of the attention mass per block under each query, mean over the group: float32 [S, P, blocks].

    ``queries`` is [batch, kv_heads, group, P, head_dim]. Scored are the blocks before the windows of ``newest``, whose
    tokens count towards the whole; some of the queries cannot see all of those, but causality is left out.
    """
    group, count = queries.shape[2:4]
    flat = Queries(queries.flatten(2, 3))
    shares = scorer.shares(flat.rows, newest.first_block, scale, tail_mass(flat, scale))
    mean: npt.NDArray[np.float32] = shares.reshape(len(shares), group, count, -1).mean(axis=1)
    return mean


def _with_sinks(
    newest: StreamWindows, quota: npt.NDArray[np.int64], sinks: int, ranked: Sequence[npt.NDArray[np.int_ | np.int32]]
) -> npt.NDArray[np.int32]:
    """Sinks, then each stream's ``ranked`` blocks that are none, as many as the quota holds: int32 [S, n]."""
    placed = np.full((len(ranked), int(quota.max(initial=0))), -1, np.int32)
    for stream, blocks in enumerate(ranked):
        first = np.arange(min(sinks, int(newest.first_block[stream])))
        row = np.concatenate([first, blocks[blocks >= sinks]])[: quota[stream]]
        placed[stream, : len(row)] = row
    return placed
