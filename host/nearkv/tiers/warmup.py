"""Importance-guided warm-up: the prompt's last queries say which blocks the pool should hold when decoding starts.

SnapKV (Li et al., 2024) found that the attention of a prompt's last tokens foretells what decoding attends to; KVDrive
fills its cache by it. Here it costs nothing extra: prefill computes those rows anyway. They also foretell how fast a
stream's selection changes, and so how much of the pool each stream can use.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.tiers.rounding import largest_remainders
from nearkv.tiers.working_set import WorkingSets

MIN_QUERIES, MAX_QUERIES = 16, 64
"""Prompt queries worth looking at: fewer are noisy, more look at what the prompt asked about earlier."""

DECAY = 0.85
"""What a query weighs against the next one. Measured on SmolLM2, three texts: better than an even mean of 16 to 64."""

_EVERY = 4
"""Queries from one division to the next of those whose mean is taken."""


def important_blocks(
    shares: npt.NDArray[np.float32], count: int, *, sink_blocks: int, recent_blocks: int, blocks: int
) -> npt.NDArray[np.int32]:
    """The ``count`` blocks to place per stream: int32 [S, count], most important first, -1 padded.

    ``shares`` [S, n] is the mean share of the attention mass per block under the prompt's last queries
    (:func:`prompt_shares`), of a prompt with ``blocks`` blocks. Sink and recent blocks have slots of their own and
    are left out; ties go to the newer block, because recency is the best guess where attention says nothing.
    """
    if shares.shape[1] < blocks:
        raise ValueError(f"shares cover {shares.shape[1]} blocks of a prompt that has {blocks}")
    candidates = np.arange(blocks - recent_blocks - 1, sink_blocks - 1, -1, dtype=np.int32)
    placed = np.full((len(shares), count), -1, np.int32)
    order = np.argsort(-shares[:, candidates], axis=1, kind="stable")[:, :count]
    placed[:, : order.shape[1]] = candidates[order]
    return placed


def prompt_shares(shares: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Share of the mass per block, [S, n], from the shares under P queries in order of position, [S, P, n].

    A mean over the queries in which the later ones weigh more.

    Raises ValueError for fewer than 16 or more than 64 queries.
    """
    queries = shares.shape[1]
    if not MIN_QUERIES <= queries <= MAX_QUERIES:
        raise ValueError(f"warm-up looks at the prompt's last {MIN_QUERIES} to {MAX_QUERIES} queries, not {queries}")
    weight = DECAY ** np.arange(queries - 1, -1, -1, dtype=np.float32)
    return np.asarray(np.einsum("p,spn->sn", weight / weight.sum(), shares), np.float32)


def pool_shares(chosen: npt.NDArray[np.int32], pool_blocks: int, most: int) -> npt.NDArray[np.int64]:
    """Pool blocks per stream, int64 [N], from what the prompt's last queries would have selected.

    ``chosen`` is int32 [P, N, k], -1 padded, in order of position, at least two queries. ``pool_blocks`` is what all
    streams have together, ``most`` what one can use. The mean of how :class:`~nearkv.tiers.working_set.WorkingSets`
    would divide the pool at some of the later queries: one query's working sets are noisy.
    """
    if len(chosen) < 2:
        raise ValueError("how a selection changes takes two queries or more")
    sets, divisions = WorkingSets(1), []
    for query, selected in enumerate(chosen, 1):
        sets.observe(0, selected)
        if query > len(chosen) // 2 and (len(chosen) - query) % _EVERY == 0:
            divisions.append(sets.shares(pool_blocks, most)[0])
    return largest_remainders(np.mean(divisions, axis=0), int(divisions[0].sum()))
