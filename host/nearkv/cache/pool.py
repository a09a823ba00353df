"""The hot pool: DRAM copies of KV blocks, a fixed share of slots per stream, kept by the policy's values.

Two phases: :meth:`LayerPool.plan` says where each selected block lies and which must be fetched; after the fetched
blocks have arrived, :meth:`LayerPool.admit` copies those worth keeping over residents of lower value. A fetch that
fails leaves the pool as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nearkv.cache.geometry import Geometry
from nearkv.policy import Policy
from nearkv_drivers import address_of, pool


@dataclass(frozen=True)
class Plan:
    """Where the selected blocks are. ``selected`` int32 [S, k], -1 padded; ``slot`` int64 [S, k], -1 on a miss."""

    selected: npt.NDArray[np.int32]
    slot: npt.NDArray[np.int64]

    @property
    def hits(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(stream, position) of every selected block in the pool."""
        streams, positions = np.nonzero(self.slot >= 0)
        return streams, positions

    @cached_property
    def misses(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(stream, position) of every selected block that must be fetched."""
        streams, positions = np.nonzero((self.slot < 0) & (self.selected >= 0))
        return streams, positions


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
        self._first_slot = address_of(memory) + np.arange(geometry.streams)[:, None] * (
            memory.shape[1] * memory.shape[2]
        )
        self.share = memory.shape[1]
        self.resident = np.full((geometry.streams, self.share), -1, np.int32)
        """Block held by each slot; -1 where empty."""
        self._where = np.empty((geometry.streams, 0), np.int64)
        self._grow(64)

    def plan(self, selected: npt.NDArray[np.int32]) -> Plan:
        """Look up ``selected`` (int32 [S, k], -1 padded)."""
        self._grow(int(selected.max(initial=0)) + 1)
        # Block -1 is found in the last column, that of the row before: no block has it, so it always says "nowhere".
        return Plan(selected, self._where.take(self._first_block + selected))

    def addresses(self, slot: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Host addresses of ``slot`` (int64 [S, k]) of every stream: uint64 [S, k], meaningless where it is -1."""
        return np.asarray(self._first_slot + slot * self.memory.shape[2]).view(np.uint64)

    def admit(self, plan: Plan, priority: npt.NDArray[np.uint32], fetched: npt.NDArray[np.uint8]) -> int:
        """Keep the blocks of highest value among residents and what was fetched; returns how many moved in.

        ``fetched`` is uint8 [S, k or more, kv block bytes], contiguous and laid out as ``plan.selected``; ``priority``
        uint32 [S, k].
        """
        self._policy.observe(self.layer, plan.selected, priority)
        if not self.share or not len(plan.misses[0]):
            return 0
        missed = np.where(plan.slot < 0, plan.selected, -1)
        values = self._policy.values(self.layer, np.concatenate([self.resident, missed], axis=1))
        return pool.admit(
            self.resident, self._where, plan.selected, plan.slot, values, self._pinned, fetched, self.memory
        )

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
        streams, have = self._where.shape
        if blocks >= have:
            wide = max(2 * have, blocks + 1)
            self._where = np.pad(self._where, ((0, 0), (0, wide - have)), constant_values=-1)
            self._first_block = np.arange(0, streams * wide, wide)[:, None]
