"""A fair comparison of selectors: the share of the true attention mass that the blocks they choose hold.

Every selector gets the same blocks that are always in, the same number of further blocks, and the same aggregation
over the query heads of a group: each head's estimates are normalised over the blocks (a softmax), then averaged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearkv.selectors.base import FloatArray, block_log_mass, create
from nearkv_drivers.wire import BLOCK_TOKENS

COMPARED = ("oracle", "int8", "int4", "quest", "mean_key", "mean_variance", "recent")
"""What ``nearkv compare`` shows, the reference first."""


def measure(
    queries: npt.ArrayLike,
    keys: npt.ArrayLike,
    scale: float,
    budget: int,
    sink_blocks: int = 1,
    recent_blocks: int = 2,
    selectors: Sequence[str] = COMPARED,
    visible: npt.ArrayLike | None = None,
) -> dict[str, FloatArray]:
    """Share of the true attention mass that each selector's choice holds, for one layer: {name: float32 [P, KVH]}.

    ``queries`` is [P, H, d] (P steps; head h reads KV head h // (H / KVH)) and ``keys`` [KVH, n, d], both after the
    position embedding; ``scale`` is the softmax scale; ``budget`` counts tokens and includes the first
    ``sink_blocks`` and the last ``recent_blocks`` blocks (one that is still filling counts as one). ``visible`` [P]
    is the number of tokens that each query attends to (its own position + 1; by default all n), so that one call
    covers steps of a growing stream. The summaries are built once, over the full blocks of all n tokens; the block
    that is still filling is in DRAM and its mass known exactly, to every selector.

    Raises ValueError for shapes that do not fit, or a budget without room for one block beside those always in.
    """
    q, k = np.asarray(queries, np.float32), np.asarray(keys, np.float32)
    if q.ndim != 3 or k.ndim != 3 or q.shape[2] != k.shape[2] or q.shape[1] % k.shape[0]:
        raise ValueError(f"queries {list(q.shape)} and keys {list(k.shape)} must be [P, H, d] and [KVH, n, d]")
    tokens = np.full(len(q), k.shape[1]) if visible is None else np.asarray(visible, np.int64)
    if tokens.shape != (len(q),) or tokens.min() < 1 or tokens.max() > k.shape[1]:
        raise ValueError(f"visible must give 1..{k.shape[1]} tokens for each of the {len(q)} queries")
    if budget // BLOCK_TOKENS <= sink_blocks + recent_blocks:
        raise ValueError(
            f"a budget of {budget} tokens leaves no block beside {sink_blocks} sink, {recent_blocks} recent"
        )
    group = q.shape[1] // k.shape[0]
    result = {name: np.empty((len(q), k.shape[0]), np.float32) for name in selectors}
    for head, stream in enumerate(k):
        rows = q[:, head * group : (head + 1) * group].reshape(-1, q.shape[2])
        exact = _visible_log_mass(rows, stream, scale, np.repeat(tokens, group))
        truth = group_share(exact.reshape(len(q), group, -1))
        full = stream[: len(stream) // BLOCK_TOKENS * BLOCK_TOKENS]
        for name in selectors:
            share = truth
            if name != "oracle":
                log_mass = exact.copy()
                if len(full):
                    estimate = create(name, full).estimate(rows, scale)
                    known = _is_sealed(np.repeat(tokens, group), estimate.shape[1])
                    log_mass[:, : estimate.shape[1]][known] = estimate[known]
                share = group_share(log_mass.reshape(len(q), group, -1))
            chosen = choose(share, tokens, budget // BLOCK_TOKENS, sink_blocks, recent_blocks)
            result[name][:, head] = np.where(chosen, truth, 0).sum(axis=1)
    return result


def group_share(log_mass: FloatArray) -> FloatArray:
    """Each head's share of the mass per block, averaged over the group: [..., G, blocks] to [..., blocks]."""
    weight = np.exp(log_mass - log_mass.max(axis=-1, keepdims=True))
    return np.asarray((weight / weight.sum(axis=-1, keepdims=True)).mean(axis=-2), np.float32)


def choose(
    share: FloatArray, tokens: npt.NDArray[np.int64], blocks: int, sink_blocks: int, recent_blocks: int
) -> npt.NDArray[np.bool_]:
    """The ``blocks`` blocks chosen by ``share`` [P, n] of streams of ``tokens`` [P]: bool [P, n].

    Sink and recent blocks come first, whatever their share; ties go to the lower index.
    """
    index = np.arange(share.shape[1])
    count = -(-tokens // BLOCK_TOKENS)[:, None]
    exists = index < count
    always = exists & ((index < sink_blocks) | (index >= count - recent_blocks))
    rank = np.where(always, np.float32(np.inf), np.where(exists, share, np.float32(-np.inf)))
    order = np.argsort(-rank, axis=1, kind="stable")[:, :blocks]
    chosen = np.zeros(share.shape, bool)
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen & exists


def _visible_log_mass(rows: FloatArray, stream: FloatArray, scale: float, tokens: npt.NDArray[np.int64]) -> FloatArray:
    """Exact log-mass [N, blocks], -inf where a query sees nothing of a block; the last block may be short."""
    width = -(-len(stream) // BLOCK_TOKENS) * BLOCK_TOKENS
    scores = np.full((len(rows), width), -np.inf, np.float32)
    scores[:, : len(stream)] = (rows * np.float32(scale)) @ stream.T
    scores[np.arange(width) >= tokens[:, None]] = -np.inf
    return block_log_mass(scores)


def _is_sealed(tokens: npt.NDArray[np.int64], blocks: int) -> npt.NDArray[np.bool_]:
    """Which of ``blocks`` blocks each query sees whole: bool [N, blocks]."""
    return np.asarray(np.arange(blocks) < (tokens // BLOCK_TOKENS)[:, None])
