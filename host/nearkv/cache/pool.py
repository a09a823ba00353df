"""The hot pool: DRAM copies of KV blocks, a fixed share of slots per stream, kept by the policy's values.

Two phases: :meth:`LayerPool.plan` says where each selected block lies and which must be fetched; after the fetched
blocks have arrived, :meth:`LayerPool.admit` copies those worth keeping over residents of lower value. A fetch that
fails leaves the pool as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearkv.cache.geometry import Geometry
from nearkv.policy import Policy
from nearkv_drivers import address_of, attention

LOWEST, HIGHEST = -np.iinfo(np.int64).max, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Plan:
    """Where the selected blocks are. ``selected`` int32 [S, k], -1 padded; ``slot`` int64 [S, k], -1 on a miss."""

    selected: npt.NDArray[np.int32]
    slot: npt.NDArray[np.int64]

    @property
    def hits(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(stream, position) of every selected block in the pool."""
        return np.nonzero(self.slot >= 0)

    @property
    def misses(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(stream, position) of every selected block that must be fetched."""
        return np.nonzero((self.slot < 0) & (self.selected >= 0))


class LayerPool:
    """The slots of one layer: ``share`` per stream, in ``memory`` (uint8 [S, share, kv block bytes]).

    The first ``pinned_blocks`` blocks of a stream (attention sinks) never leave once they are in.
    """

    def __init__(
        self, layer: int, geometry: Geometry, memory: npt.NDArray[np.uint8], policy: Policy, pinned_blocks: int
    ) -> None:
        self.layer = layer
        self._pinned = pinned_blocks
        self.memory = memory
        self._policy = policy
        self._slot_bytes = np.uint64(memory.shape[2])
        rows = np.arange(geometry.streams, dtype=np.uint64)[:, None]
        self._first_slot = np.uint64(address_of(memory)) + rows * np.uint64(memory.shape[1]) * self._slot_bytes
        self.share = memory.shape[1]
        self.resident = np.full((geometry.streams, self.share), -1, np.int32)
        """Block held by each slot; -1 where empty."""
        self._where = np.full((geometry.streams, 64), -1, np.int32)

    def plan(self, selected: npt.NDArray[np.int32]) -> Plan:
        """Look up ``selected`` (int32 [S, k], -1 padded)."""
        self._grow(int(selected.max(initial=0)) + 1)
        rows = np.arange(len(selected))[:, None]
        slot = np.where(selected >= 0, self._where[rows, np.maximum(selected, 0)], -1)
        return Plan(selected, slot.astype(np.int64))

    def addresses(self, slot: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Host addresses of ``slot`` (int64 [S, k]) of every stream: uint64 [S, k], meaningless where it is -1."""
        return self._first_slot + slot.astype(np.uint64) * self._slot_bytes

    def admit(self, plan: Plan, priority: npt.NDArray[np.uint32], fetched: npt.NDArray[np.uint8]) -> int:
        """Keep the blocks of highest value among residents and what was fetched; returns how many moved in.

        ``fetched`` is uint8 [S, k or more, kv block bytes], contiguous and laid out as ``plan.selected``; ``priority``
        uint32 [S, k].
        """
        self._policy.observe(self.layer, plan.selected, priority)
        if not self.share:
            return 0
        missed = np.where(plan.slot < 0, plan.selected, -1)
        candidates = np.concatenate([self.resident, missed], axis=1)
        values = np.where(candidates < self._pinned, HIGHEST, self._policy.values(self.layer, candidates))
        values = np.where(candidates >= 0, values, LOWEST)
        order = np.argsort(-values, axis=1, kind="stable")
        kept = np.zeros(candidates.shape, bool)
        np.put_along_axis(kept, order[:, : self.share], True, axis=1)
        kept &= candidates >= 0
        streams, positions = np.nonzero(kept[:, self.share :])
        if not len(streams):
            return 0
        # The i-th newcomer of a stream takes its i-th slot that is not kept; there are at least as many.
        free = np.argsort(kept[:, : self.share], axis=1, kind="stable")
        rank = np.concatenate([np.arange(n) for n in np.bincount(streams, minlength=len(kept)).tolist()])
        slots = free[streams, rank]
        self._place(streams, slots, plan.selected[streams, positions])
        source = address_of(fetched) + (streams * fetched.shape[1] + positions) * fetched.shape[2]
        target = self._first_slot[streams, 0] + slots.astype(np.uint64) * self._slot_bytes
        attention.copy_blocks(source.astype(np.uint64), target, fetched.shape[2])
        return len(streams)

    def warm(self, stream: int, blocks: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> None:
        """Let ``stream`` hold exactly ``blocks`` (int32 [n], n <= share), whose bytes are ``data`` [n, block bytes]."""
        count = len(blocks)
        self._grow(int(blocks.max(initial=0)) + 1)
        self._where[stream] = -1
        self.resident[stream] = -1
        if not count:
            return
        self._place(np.full(count, stream), np.arange(count), blocks)
        self.memory[stream, :count] = data

    def _place(
        self, streams: npt.NDArray[np.int64], slots: npt.NDArray[np.int64], blocks: npt.NDArray[np.int32]
    ) -> None:
        leaving = self.resident[streams, slots]
        gone = leaving >= 0
        self._where[streams[gone], leaving[gone]] = -1
        self.resident[streams, slots] = blocks
        self._where[streams, blocks] = slots

    def _grow(self, blocks: int) -> None:
        have = self._where.shape[1]
        if blocks > have:
            self._where = np.pad(self._where, ((0, 0), (0, max(have, blocks - have))), constant_values=-1)
