"""Replay a trace through a policy: a pool of block numbers instead of blocks, the same rules as the real one.

Sink and recent blocks have slots of their own; what is measured is the pool behind them. A block that leaves the
recent window, and a block that was fetched, may enter the pool, and the policy's lowest values leave it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nearkv.policy import PinNewest, Policy, UsesPlacement, create, names, uses_ranking
from nearkv.policy.pin_newest import newest_first, pinned_blocks
from nearkv.tiers.warmup import important_blocks, pool_shares
from nearkv.tiers.working_set import WorkingSets
from nearkv.trace.belady import Belady
from nearkv.trace.format import Trace, TraceError

Blocks = npt.NDArray[np.int32]
COLD_STEPS = 16
"""Steps at the start over which cold misses are counted."""


@dataclass
class Replay:
    """What one policy did with one trace. A hit is a selected block found in the pool; sink and recent do not count."""

    policy: str
    pool_blocks: int
    needed: int = 0
    hits: int = 0
    promotions: int = 0
    demotions: int = 0
    kv_block_bytes: int = 0
    misses_by_step: list[int] = field(default_factory=list)
    misses_by_stream: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    @property
    def hit_rate(self) -> float:
        """Hits per selected block."""
        return self.hits / self.needed

    @property
    def bytes_from_drive(self) -> int:
        """Bytes of the blocks that had to be fetched."""
        return (self.needed - self.hits) * self.kv_block_bytes

    @property
    def cold_misses(self) -> int:
        """Misses of the first 16 steps."""
        return sum(self.misses_by_step[:COLD_STEPS])


def capacity(trace: Trace, dram_fraction: float) -> int:
    """Pool blocks per stream when ``dram_fraction`` of the prompt's KV may stay in DRAM.

    Sink and recent blocks are part of that fraction. Raises TraceError if nothing is left for the pool.
    """
    if not 0 < dram_fraction <= 1:
        raise TraceError(f"a DRAM fraction lies above 0 and is at most 1, not {dram_fraction:g}")
    blocks = prompt_blocks(trace)
    pool = int(blocks * dram_fraction) - trace.always
    if pool < 1:
        least = math.ceil(1000 * (trace.always + 1) / blocks) / 1000  # rounded up, or what is printed may not do
        raise TraceError(f"a DRAM fraction of {dram_fraction:g} leaves no pool; this trace needs {least:.3f} to 1")
    return pool


def replay(
    trace: Trace,
    policy: Policy,
    pool: int | npt.NDArray[np.int64],
    *,
    name: str = "",
    warm: bool = False,
    pin_newest: float = 0.0,
    redivide: int = 0,
) -> Replay:
    """Run ``policy`` over ``trace`` with ``pool`` blocks per stream, or an array [L, S] of them.

    The pool starts with the newest blocks and the policy knowing nothing. With ``warm`` it starts with the blocks
    that the prompt's last queries attended to most, and the policy has observed those queries. ``pin_newest`` is the
    share of every stream's pool that its newest blocks take whatever the policy says. Every ``redivide`` steps (0:
    never) the streams divide anew what they have together.
    """
    rows, prompt = trace.info.layers * trace.info.streams, trace.info.prompt_steps
    quota = _by_stream(trace, pool).reshape(rows)
    largest = int(quota.max())
    pins = PinNewest(pin_newest, rows)
    resident = important_to_prompt(trace, largest) if warm else newest_blocks(trace, largest)
    if warm and pin_newest:
        resident = _with_newest(trace, resident, pinned_blocks(pin_newest, quota))
    resident = np.where(np.arange(resident.shape[1]) < quota[:, None], resident, -1).astype(np.int32)
    result = Replay(name, int(quota.sum()), kv_block_bytes=trace.info.kv_block_bytes)
    result.misses_by_stream = np.zeros((trace.info.layers, trace.info.streams), np.int64)
    ranked = trace.ranked.reshape(len(trace.tokens), rows, -1)
    priority = trace.priority.reshape(ranked.shape)
    selected = trace.always + trace.info.selected_blocks
    count = -(-trace.tokens.astype(np.int64) // trace.info.block_tokens)
    sets = WorkingSets(1)
    for t in range(prompt if warm else 0):
        _observe(policy, ranked[t], priority[t], selected)
    if isinstance(policy, UsesPlacement):
        policy.placed(0, resident)
    for t in range(prompt, len(ranked)):
        if redivide and t > prompt and (t - prompt) % redivide == 0:
            quota = sets.follow(quota[None], int(count[t]) - trace.always)[0]
            resident = _keep(policy, pins, resident, resident[:, :0], quota, result)
        if t > prompt and count[t] > count[t - 1]:
            left = np.full((rows, 1), count[t] - 1 - trace.info.recent_blocks, np.int32)
            resident = _keep(policy, pins, resident, left, quota, result)
        chosen = ranked[t, :, trace.always : selected]
        missed = np.where(_contains(resident, chosen), -1, chosen)
        result.needed += int((chosen >= 0).sum())
        result.hits += int((chosen >= 0).sum() - (missed >= 0).sum())
        result.misses_by_step.append(int((missed >= 0).sum()))
        result.misses_by_stream += (missed >= 0).sum(axis=1).reshape(result.misses_by_stream.shape)
        _observe(policy, ranked[t], priority[t], selected)
        if redivide:
            sets.observe(0, chosen)
        resident = _keep(policy, pins, resident, missed, quota, result)
        result.promotions += int((_contains(resident, missed) & (missed >= 0)).sum())
    return result


def replay_all(
    trace: Trace,
    pool: int | npt.NDArray[np.int64],
    policies: Sequence[str] | None = None,
    *,
    warm: bool = False,
    pin_newest: float = 0.0,
    redivide: int = 0,
) -> dict[str, Replay]:
    """Replay by name, all policies by default, and ``belady`` last, which pins nothing.

    ``pool`` and the other arguments as for :func:`replay`.
    """
    results = {
        name: replay(trace, create(name), pool, name=name, warm=warm, pin_newest=pin_newest, redivide=redivide)
        for name in (names() if policies is None else policies)
    }
    first = 0 if warm else trace.info.prompt_steps
    belady = Belady(trace, first)
    results["belady"] = replay(trace, belady, pool, name="belady", warm=warm, redivide=redivide)
    return results


def warm_shares(trace: Trace, pool: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Pool blocks of every stream after importance-guided warm-up, int64 [L, S].

    As many in total as ``pool`` (blocks per stream), divided by how the prompt's last selections changed. Where
    ``pool`` is a plan's blocks [L, S], learnt from other texts, the mean of both.
    """
    info, given = trace.info, _by_stream(trace, pool)
    chosen = trace.chosen[: info.prompt_steps].reshape(info.prompt_steps, -1, info.selected_blocks)
    own = pool_shares(chosen, int(given.sum()), prompt_blocks(trace) - trace.always).reshape(given.shape)
    if np.ndim(pool) == 0:
        return own
    mean = given + own
    odd = np.flatnonzero(mean % 2)
    half = mean // 2
    half.reshape(-1)[odd[: len(odd) // 2]] += 1
    return half


def prompt_blocks(trace: Trace) -> int:
    """Blocks that the context has at the first decode step."""
    return -(-int(trace.tokens[trace.info.prompt_steps]) // trace.info.block_tokens)


def important_to_prompt(trace: Trace, count: int) -> Blocks:
    """What importance-guided warm-up leaves in the pool: int32 [L · S, count], most important first."""
    info = trace.info
    return important_blocks(
        trace.prompt.reshape(info.layers * info.streams, -1),
        count,
        sink_blocks=info.sink_blocks,
        recent_blocks=info.recent_blocks,
        blocks=prompt_blocks(trace),
    )


def newest_blocks(trace: Trace, count: int) -> Blocks:
    """What recency placement leaves in the pool after the prompt: int32 [L · S, count], newest first."""
    newest = np.arange(
        prompt_blocks(trace) - 1 - trace.info.recent_blocks, trace.info.sink_blocks - 1, -1, dtype=np.int32
    )
    row = np.full(count, -1, np.int32)
    row[: len(newest[:count])] = newest[:count]
    return np.tile(row, (trace.info.layers * trace.info.streams, 1))


def _by_stream(trace: Trace, pool: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """``pool`` as int64 [L, S], no more than there are blocks. Raises TraceError for other layers and streams."""
    blocks, shape = np.asarray(pool, np.int64), (trace.info.layers, trace.info.streams)
    if blocks.ndim and blocks.shape != shape:
        raise TraceError(f"the plan is for {list(blocks.shape)} layers and KV heads, the trace has {list(shape)}")
    return np.broadcast_to(np.minimum(blocks, int(trace.ranked.max()) + 1), shape)


def _observe(policy: Policy, ranked: Blocks, priority: npt.NDArray[np.uint32], selected: int) -> None:
    """Show the policy one step: the whole ranking if it wants that, then the first ``selected`` of it."""
    if uses_ranking(policy):
        policy.rank(0, ranked, priority)
    policy.observe(0, ranked[:, :selected], priority[:, :selected])


def _with_newest(trace: Trace, ranked: Blocks, pinned: npt.NDArray[np.int64]) -> Blocks:
    """``ranked`` [N, m] with the ``pinned`` [N] newest blocks of every stream before them."""
    newest, oldest = prompt_blocks(trace) - 1 - trace.info.recent_blocks, trace.info.sink_blocks
    rows = [newest_first(row, newest, count, oldest) for row, count in zip(ranked, pinned.tolist(), strict=True)]
    return np.stack([row[: ranked.shape[1]] for row in rows])


def _keep(
    policy: Policy,
    pins: PinNewest,
    resident: Blocks,
    newcomers: Blocks,
    quota: npt.NDArray[np.int64],
    result: Replay,
) -> Blocks:
    """Those of highest value, at most ``quota`` [N] each: int32 [N, largest quota]; counts residents that leave."""
    candidates = np.hstack([resident, newcomers])
    missing = int(quota.max()) - candidates.shape[1]
    if missing > 0:
        candidates = np.pad(candidates, ((0, 0), (0, missing)), constant_values=-1)
    values = pins.lift(policy.values(0, candidates), candidates, quota)
    value = np.where(candidates >= 0, values, np.iinfo(np.int64).min)
    order = np.lexsort((candidates, -np.maximum(value, -(2**62))), axis=1)
    ranked = np.take_along_axis(candidates, order, axis=1)[:, : int(quota.max())]
    kept = np.where(np.arange(ranked.shape[1]) < quota[:, None], ranked, -1)
    if isinstance(policy, UsesPlacement):
        policy.placed(0, kept)
    result.demotions += int(((resident >= 0) & ~_contains(kept, resident)).sum())
    return kept


def _contains(pool: Blocks, blocks: Blocks) -> npt.NDArray[np.bool_]:
    """Which of ``blocks`` [N, m] are in ``pool`` [N, c], row by row."""
    width = int(max(pool.max(initial=0), blocks.max(initial=0))) + 2
    member = np.zeros((len(pool), width), bool)
    np.put_along_axis(member, pool + 1, True, axis=1)
    member[:, 0] = False
    return np.take_along_axis(member, blocks + 1, axis=1)
