"""The hot pool: DRAM copies of KV blocks, a quota of slots per stream, kept by the policy's values.

Two phases: :meth:`LayerPool.plan` says where each selected block lies and which must be fetched; after the fetched
blocks have arrived, :meth:`LayerPool.admit` copies those worth keeping over residents of lower value. A fetch that
fails leaves the pool as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nearkv.cache.geometry import Geometry
from nearkv.cache.slots import SlotMemory
from nearkv.policy import PinNewest, Policy, UsesPlacement
from nearkv_drivers import pool

Reader = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint64]], None]
"""Puts (streams, blocks) at host addresses, all [n], or raises."""


@dataclass(frozen=True)
class Plan:
    """Where the selected blocks are. ``selected`` int32 [S, k], -1 padded; ``slot`` int64 [S, k], -1 on a miss.

    ``misses`` are (stream, position) of every selected block that must be fetched; ``hits`` counts the others, sinks
    apart.
    """

    selected: npt.NDArray[np.int32]
    slot: npt.NDArray[np.int64]
    misses: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    hits: int


class LayerPool:
    """The slots of one layer. The first ``pinned_blocks`` of a stream (attention sinks) never leave once they are in.

    Of a stream's other slots a share of ``pin_newest`` is for its newest blocks, whatever the policy says.
    ``resident`` int32 [S, n] is the block of each slot, -1 where empty; each stream uses the first ``quota`` [S].
    """

    def __init__(
        self,
        layer: int,
        geometry: Geometry,
        policy: Policy,
        pinned_blocks: int,
        quota: npt.NDArray[np.int64],
        pin_newest: float = 0.0,
    ) -> None:
        self.layer = layer
        self._pinned = pinned_blocks
        self._policy = policy
        self._pin_newest = PinNewest(pin_newest, geometry.streams) if pin_newest else None
        self._listener = policy if isinstance(policy, UsesPlacement) else None
        self._slots = SlotMemory(geometry.streams, geometry.kv_block_bytes)
        self._nothing = np.empty((geometry.streams, 0, geometry.kv_block_bytes), np.uint8)
        self.resident = np.full((geometry.streams, 0), -1, np.int32)
        self._where = np.empty((geometry.streams, 0), np.int64)
        self._know(64)
        self.resize(quota)

    @property
    def nbytes(self) -> int:
        """Bytes that the slots may take now."""
        return self._slots.nbytes

    @property
    def block_bytes(self) -> int:
        """Bytes of a slot."""
        return self._slots.block_bytes

    @property
    def quota(self) -> npt.NDArray[np.int64]:
        """Slots that each stream may use, int64 [S]."""
        return self._slots.quota

    def resize(self, quota: npt.NDArray[np.int64]) -> int:
        """Let the streams use ``quota`` int64 [S] slots from now on; returns how many blocks had to leave for that."""
        demoted = 0
        if (quota < self.quota).any():
            _, demoted = self._settle(self._nobody, self._nothing, np.minimum(quota, self.quota))
        self._slots.resize(quota)
        more = self._slots.addresses.shape[1] - self.resident.shape[1]
        if more > 0:
            self.resident = np.pad(self.resident, ((0, 0), (0, more)), constant_values=-1)
        return demoted

    def plan(self, selected: npt.NDArray[np.int32]) -> Plan:
        """Look up ``selected`` (int32 [S, k], -1 padded)."""
        self._know(int(selected.max(initial=0)) + 1)
        slot, *misses, hits = pool.look_up(self._where, selected, self._pinned)
        return Plan(selected, slot, (misses[0], misses[1]), hits)

    def locate(self, plan: Plan, landing: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Host addresses uint64 [S, k] of the selected blocks, 0 for none.

        They are in the pool, or in ``landing`` uint64 [S, k or more], where they are fetched to.
        """
        return pool.locate(plan.selected, plan.slot, self._slots.addresses, landing)

    def admit(self, plan: Plan, fetched: npt.NDArray[np.uint8]) -> tuple[int, int]:
        """Keep the blocks of highest value among residents and what was fetched.

        ``fetched`` is uint8 [S, k or more, kv block bytes], contiguous and laid out as ``plan.selected``. Returns how
        many blocks moved in and how many left. The policy must have observed what it is to judge by.
        """
        if not len(plan.misses[0]):
            return 0, 0
        return self._settle(plan, fetched, self.quota)

    def offer(self, blocks: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> int:
        """Keep ``blocks`` int32 [S] (-1 for none) where they are worth it; returns how many residents left for them.

        Their bytes lie first in each row of ``data`` uint8 [S, 1 or more, block bytes].
        """
        return self.admit(self.plan(blocks[:, None]), data)[1]

    def fill(self, blocks: npt.NDArray[np.int32], read: Reader) -> int:
        """Let the pool hold exactly ``blocks`` int32 [S, n] (-1 padded, at most the quota), ``read`` where missing.

        Returns how many were read. Where reading fails, the pool holds those of them that it held before.
        """
        plan = self.plan(blocks)
        target = np.zeros(blocks.shape, np.int64)
        for stream, slot in enumerate(plan.slot):
            stays = np.zeros(self.resident.shape[1], np.bool_)
            stays[slot[slot >= 0]] = True
            leaving = self.resident[stream, ~stays]
            self._where[stream, leaving[leaving >= 0]] = -1
            self.resident[stream, ~stays] = -1
            missing = np.flatnonzero((blocks[stream] >= 0) & (slot < 0))
            target[stream, missing] = np.flatnonzero(~stays[: self.quota[stream]])[: len(missing)]
        streams, columns = plan.misses
        slots, missed = target[streams, columns], blocks[streams, columns]
        if len(streams):
            read(streams, missed.astype(np.int64), self._slots.addresses[streams, slots])
            self.resident[streams, slots] = missed
            self._where[streams, missed] = slots
        self._tell()
        return len(streams)

    @cached_property
    def _nobody(self) -> Plan:
        """A selection of nothing."""
        nothing, none = np.empty((len(self.resident), 0), np.int32), np.empty(0, np.int64)
        return Plan(nothing, nothing.astype(np.int64), (none, none), 0)

    def _settle(self, plan: Plan, fetched: npt.NDArray[np.uint8], quota: npt.NDArray[np.int64]) -> tuple[int, int]:
        missed = np.where(plan.slot < 0, plan.selected, -1)
        blocks = np.concatenate([self.resident, missed], axis=1)
        values = self._policy.values(self.layer, blocks)
        if self._pin_newest is not None:
            values = self._pin_newest.lift(values, blocks, quota - self._pinned)
        moved = pool.admit(
            self.resident,
            self._where,
            self._slots.addresses,
            quota,
            plan.selected,
            plan.slot,
            values,
            self._pinned,
            fetched,
        )
        self._tell()
        return moved

    def _tell(self) -> None:
        """Let a policy that depends on it know who is hot."""
        if self._listener is not None:
            self._listener.placed(self.layer, self.resident)

    def _know(self, blocks: int) -> None:
        """Keep books on blocks up to number ``blocks`` - 1."""
        have = self._where.shape[1]
        if blocks > have:
            self._where = np.pad(self._where, ((0, 0), (0, max(have, blocks - have))), constant_values=-1)
