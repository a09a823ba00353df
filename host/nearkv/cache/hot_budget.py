"""How many blocks of every stream may be hot: the DRAM limit, alpha, a window plan, and which of them bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from nearkv.cache.config import TierConfig
from nearkv.cache.extents import round_up
from nearkv.cache.geometry import Geometry
from nearkv.cache.selection import MOST_OF_ONE_HEAD
from nearkv.cache.tail import StreamWindows
from nearkv.errors import MemoryLimitError
from nearkv.tiers.alpha import alpha_budget
from nearkv.tiers.warmup import pool_shares
from nearkv.tiers.window_scaling import WindowPlan, apportion
from nearkv.tiers.working_set import WorkingSets
from nearkv_drivers.device import ALIGNMENT
from nearkv_drivers.wire import BLOCK_TOKENS

DEFAULT_HOT_SHARE = 2.0
"""Hot blocks per block of a step's selection where nothing bounds them: consecutive selections overlap by about
three quarters, so the union of the last few steps fits, and few blocks are fetched."""

MOST_HOT_SHARE = 16
"""Hot blocks per selected block beyond which a DRAM limit is not used up, where the context's length is unknown."""


class Bound(StrEnum):
    """What keeps more blocks from being hot."""

    SELECTION = "twice a selection"
    DRAM = "DRAM limit"
    ALPHA = "alpha"
    PINNED = "sinks and newest tokens"
    CONTEXT = "context"


class HotBudget:
    """Pool slots of the streams of ``layers`` tiered layers; sinks have slots among them.

    ``plan`` divides a sequence's slots over layers and KV heads; without one they all have the same. ``reserve`` says
    what scoring takes, over all layers, of the bytes that are left beside newest tokens, buffers and the least pool.
    """

    def __init__(
        self, config: TierConfig, layers: int, plan: WindowPlan | None, reserve: Callable[[Geometry, int], int]
    ) -> None:
        self._config = config
        self._reserve = reserve
        self._layers = layers
        self._plan = plan
        self._own: list[WindowPlan | None] = []
        self._sets = WorkingSets(layers)
        self._most: dict[tuple[Geometry, bool], tuple[int, Bound]] = {}

    def quota(
        self, place: int, geometry: Geometry, newest: StreamWindows, alpha: float | None
    ) -> tuple[npt.NDArray[np.int64], Bound]:
        """Slots of every stream of the ``place``-th tiered layer, int64 [S], and what bound the largest.

        ``newest`` are the windows of newest tokens; ``alpha`` the share of tokens that may be hot, or None. Raises
        MemoryLimitError where the DRAM limit is too small.
        """
        equal, bound = self._equal(geometry, newest, alpha)
        return self._planned(place, geometry, equal), bound

    def _equal(
        self, geometry: Geometry, newest: StreamWindows, alpha: float | None
    ) -> tuple[npt.NDArray[np.int64], Bound]:
        """Slots of every stream where all streams of a sequence have the same, int64 [S], and what bound them."""
        key = geometry, alpha is not None
        if key not in self._most:
            self._most[key] = self._fixed(geometry, unbounded=alpha is not None)
        most, bound = self._most[key]
        equal = np.full(geometry.streams, most, np.int64)
        if alpha is not None:
            share, binding = _alpha_blocks(newest, alpha, self._config.sink_blocks)
            bound = binding if share.max() <= most else bound
            equal = np.minimum(equal, share)
        return equal, bound

    def observe(self, place: int, chosen: npt.NDArray[np.int32]) -> None:
        """One selection of the ``place``-th tiered layer, int32 [S, n], -1 padded, sinks apart."""
        self._sets.observe(place, chosen)

    def divide(
        self,
        geometry: Geometry,
        newest: StreamWindows,
        chosen: Sequence[npt.NDArray[np.int32]],
        alpha: float | None,
    ) -> None:
        """From now on, divide every sequence's slots by how its prompt's last selections changed.

        ``chosen`` has int32 [P, S, n] per layer, sinks apart. With a plan, the mean of both divisions.
        """
        own: list[WindowPlan | None] = []
        for streams, slots, most in self._sequences(geometry, newest, alpha):
            if not slots:
                own.append(None)
                continue
            changing = np.concatenate([selected[:, streams] for selected in chosen], axis=1)
            weights = pool_shares(changing, slots, most).reshape(self._layers, -1)
            if self._plan is not None:
                weights = weights + apportion(self._plan, slots)
            own.append(_weights(weights))
        self._own = own

    def redivide(self, geometry: Geometry, newest: StreamWindows, alpha: float | None) -> None:
        """From now on, divide every sequence's slots a little more as its selections are now."""
        own: list[WindowPlan | None] = []
        for sequence, (streams, slots, most) in enumerate(self._sequences(geometry, newest, alpha)):
            plan = self._division(sequence)
            equal = np.full((self._layers, geometry.kv_heads), slots // (self._layers * geometry.kv_heads), np.int64)
            held = equal if plan is None else apportion(plan, slots)
            own.append(_weights(self._sets.follow(held, most, streams)) if slots else None)
        self._own = own

    def _sequences(
        self, geometry: Geometry, newest: StreamWindows, alpha: float | None
    ) -> Iterator[tuple[slice, int, int]]:
        """Of every sequence: its streams in a layer, its slots in all layers, and how many of them one stream can use.

        Sinks apart.
        """
        sinks, heads = self._config.sink_blocks, geometry.kv_heads
        equal, _ = self._equal(geometry, newest, alpha)
        for first in range(0, geometry.streams, heads):
            slots = max(int(equal[first]) - sinks, 0) * self._layers * heads
            yield slice(first, first + heads), slots, max(int(newest.first_block[first]) - sinks, 0)

    def _division(self, sequence: int) -> WindowPlan | None:
        """What divides the slots of ``sequence``; None: all streams have the same."""
        return (self._own[sequence] if self._own else None) or self._plan

    def _planned(self, place: int, geometry: Geometry, equal: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Each stream's share of what all streams of a sequence may hold together, sinks apart."""
        sinks, heads = self._config.sink_blocks, geometry.kv_heads
        quota = equal.copy()
        for sequence, first in enumerate(range(0, len(equal), heads)):
            plan = self._division(sequence)
            free = int(equal[first]) - sinks
            if plan is not None and free > 0:
                shares = apportion(plan, free * self._layers * heads)
                quota[first : first + heads] = sinks + shares[place]
        return quota

    def _fixed(self, geometry: Geometry, *, unbounded: bool) -> tuple[int, Bound]:
        """Blocks per stream that may stay hot whatever the context's length; ``unbounded``: alpha bounds them."""
        config = self._config
        wanted = int(selected_blocks(config, np.array([config.recent_blocks * BLOCK_TOKENS]))[0])
        if config.dram_limit is None:
            if unbounded:
                return 1 << 40, Bound.CONTEXT
            return max(math.ceil(DEFAULT_HOT_SHARE * wanted), config.sink_blocks + 1), Bound.SELECTION
        per_block = self._layers * geometry.streams * geometry.kv_block_bytes
        tails = self._layers * geometry.streams * (config.recent_blocks + 1) * BLOCK_TOKENS * geometry.token_bytes
        gather = geometry.streams * (MOST_OF_ONE_HEAD * wanted + config.sink_blocks) * geometry.kv_block_bytes
        sealed = _sealed_bytes(geometry)
        expected = math.ceil(config.expected_tokens / BLOCK_TOKENS)
        scales = self._layers * geometry.streams * expected * geometry.cold_scale_bytes
        least = (config.sink_blocks + 1) * per_block
        spare = config.dram_limit - tails - gather - sealed - scales - least
        scoring = self._reserve(geometry, spare)
        share = (spare + least - scoring) // per_block
        if share < config.sink_blocks + 1:
            need = tails + gather + sealed + scales + scoring + least
            raise MemoryLimitError(
                f"a DRAM limit of {config.dram_limit:,} bytes is too small for {geometry.batch} sequence(s) at a "
                f"budget of {config.budget} tokens: at least {need:,} bytes are needed (newest tokens {tails:,}, one "
                f"layer's fetched blocks {gather:,}, its blocks on their way to the drive {sealed:,}, summaries "
                f"{scoring:,}, scales of cold blocks {scales:,}, sink and one hot block per stream {least:,}); raise "
                "the limit or lower the budget"
            )
        useful = expected or MOST_HOT_SHARE * wanted
        return int(min(share, useful)), Bound.DRAM if share < useful else Bound.CONTEXT


def _sealed_bytes(geometry: Geometry) -> int:
    """Bytes of one layer's newest blocks on their way to the drive, score blocks in up to two pages beside them.

    Where K and V are encoded, one sequence's blocks are there in both forms for a moment.
    """
    scores = geometry.streams * round_up(ALIGNMENT - 1 + geometry.score_block_bytes)
    before = 0 if geometry.cold_bits is None else geometry.kv_heads * geometry.kv_block_bytes
    return scores + geometry.streams * geometry.drive_block_bytes + before


def _weights(blocks: npt.NDArray[np.int64]) -> WindowPlan:
    """A division [L, kv_heads] as a plan."""
    return WindowPlan("", np.ones(blocks.shape), blocks)


def selected_blocks(config: TierConfig, newest: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Blocks that the budget leaves each stream beside its ``newest`` [S] tokens (sinks included): int64 [S]."""
    return np.maximum((config.budget - newest) // BLOCK_TOKENS, 0)


def _alpha_blocks(newest: StreamWindows, alpha: float, sinks: int) -> tuple[npt.NDArray[np.int64], Bound]:
    """Slots that ``alpha`` allows each stream, int64 [S]: sinks, and what the pinned tokens leave."""
    return _alpha_slots(tuple(newest.first_block.tolist()), tuple(newest.tokens.tolist()), alpha, sinks)


@lru_cache(4)
def _alpha_slots(
    first_block: tuple[int, ...], newest: tuple[int, ...], alpha: float, sinks: int
) -> tuple[npt.NDArray[np.int64], Bound]:
    """The same for all layers of a step, hence the cache."""
    budgets = [
        alpha_budget(first * BLOCK_TOKENS + count, alpha, sink_blocks=sinks, newest_tokens=count)
        for first, count in zip(first_block, newest, strict=True)
    ]
    slots = np.array(
        [min(first, sinks) + budget.pool_blocks for first, budget in zip(first_block, budgets, strict=True)], np.int64
    )
    slots.flags.writeable = False
    if all(budget.pinned_only for budget in budgets):
        return slots, Bound.PINNED
    everything = all(slot >= first for slot, first in zip(slots.tolist(), first_block, strict=True))
    return slots, Bound.CONTEXT if everything else Bound.ALPHA
