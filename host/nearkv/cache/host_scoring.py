"""The host's part of scoring: DRAM copies of a stream's first score blocks, scored beside the drive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from nearkv.cache.geometry import Geometry
from nearkv.cache.store import GROWTH_BLOCKS
from nearkv_drivers.device import Mode
from nearkv_drivers.kernel import Command, Kernel, KernelHandle
from nearkv_drivers.native_kernel import NativeKernel
from nearkv_drivers.wire import EMPTY


class ScoreCopies:
    """Copies of the first score blocks of every stream of one layer, taken when blocks are sealed.

    ``most_blocks`` is how many a stream may hold; None: it grows with the stream, from ``expected_blocks`` on. It is a
    keeper of the layer's store.
    """

    def __init__(self, geometry: Geometry, most_blocks: int | None, expected_blocks: int = 0) -> None:
        self._limit, self._bits = most_blocks, geometry.bits
        capacity = expected_blocks if most_blocks is None else most_blocks
        self._memory = np.zeros((geometry.streams, capacity, geometry.score_block_bytes), np.uint8)
        self.held = np.zeros(geometry.streams, np.int64)
        """Blocks of each stream that have a copy: its first ones."""
        self.kernel: Callable[[npt.NDArray[np.uint8]], Kernel] = NativeKernel
        """What scores blocks in memory (uint8 [n])."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._memory.nbytes

    def sealed(
        self, stream: int, first: int, kv_blocks: npt.NDArray[np.uint8], score_blocks: npt.NDArray[np.uint8]
    ) -> None:
        """See Keeper."""
        have = int(self.held[stream])
        room = len(score_blocks) if self._limit is None else min(self._limit - have, len(score_blocks))
        if room <= 0:
            return
        assert first == have, "copies follow each other"
        if have + room > self._memory.shape[1]:
            more = have + room + GROWTH_BLOCKS - self._memory.shape[1]
            self._memory = np.pad(self._memory, ((0, 0), (0, more), (0, 0)))
        self._memory[stream, have : have + room] = score_blocks[:room]
        self.held[stream] = have + room

    def command(
        self,
        stream: int,
        blocks: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        scales: tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8], npt.NDArray[np.int32]],
        q: npt.NDArray[np.int8],
    ) -> Command:
        """The command that scores runs of ``stream`` in mode MASS: ``counts`` blocks from each of ``blocks`` on.

        ``scales`` are c, r and b [runs, G] of the runs' segments; ``q`` int8 [G, D].
        """
        row = self._memory.shape[1] * stream
        addresses = np.asarray((row + blocks) * self._memory.shape[2], np.uint64)
        nothing = np.full(len(q), EMPTY, np.int32)
        return Command(addresses, counts.astype(np.uint32), *scales, q, nothing, self._bits, Mode.MASS, 0)

    def start(self, commands: Sequence[Command]) -> KernelHandle:
        """Begin ``commands`` and return at once."""
        return self.kernel(self._memory.reshape(-1)).start(commands)
