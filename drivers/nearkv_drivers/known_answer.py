"""Commands whose results are known before a kernel runs them: score blocks that the native kernel has scored.

Every block carries a CRC over all its bytes, and every log-mass depends on all of a block's values. So a result that
is equal to the byte proves that the kernel works and that each byte reached it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearkv_drivers import native
from nearkv_drivers.device import ALIGNMENT, Mode, Run, ScoreRequest, ScoreResult
from nearkv_drivers.kernel import Command
from nearkv_drivers.memory import aligned_buffer
from nearkv_drivers.native_kernel import NativeKernel
from nearkv_drivers.wire import BLOCK_TOKENS, EMPTY

GROUP, ATTENTION_SCALE = 4, 0.125


class KnownAnswer:
    """``parts`` runs of ``blocks`` random score blocks each, ``bits`` per value, for keys of size ``head_dim``.

    ``data`` is uint8 [parts, bytes], the blocks of each run and zeros up to a multiple of 4,096 bytes.
    """

    def __init__(self, seed: int, *, parts: int = 1, blocks: int = 8, bits: int = 8, head_dim: int = 64) -> None:
        rng = np.random.default_rng(seed)
        keys = rng.normal(size=(parts * blocks * BLOCK_TOKENS, head_dim)).astype(np.float32)
        segment = native.encode_segment(keys, bits, stream=seed)
        query = native.encode_query(rng.normal(size=(GROUP, head_dim)), segment, ATTENTION_SCALE)
        rows = segment.blocks.reshape(parts, -1)
        self.bits, self._blocks, self._size = bits, blocks, rows.shape[1]
        self._q, self._scales = query.q, (query.c[0], query.r[0], query.b[0])
        room = -(-self._size // ALIGNMENT) * ALIGNMENT
        self.data = aligned_buffer(parts * room).reshape(parts, room)
        self.data[:, : self._size] = rows
        self.data[:, self._size :] = 0

    def command(self, addresses: Sequence[int], mode: Mode) -> Command:
        """Score all parts, which lie at these device addresses; TOPK asks for half of the blocks."""
        parts = len(self.data)
        c, r, b = (np.repeat(each[None], parts, axis=0) for each in self._scales)
        return Command(
            np.array(addresses, np.uint64), np.full(parts, self._blocks, np.uint32), c, r, b,
            self._q, np.full(GROUP, EMPTY, np.int32), self.bits, mode, self._top_k,
        )  # fmt: skip

    def request(self, offsets: Sequence[int], mode: Mode) -> ScoreRequest:
        """The same for a device on which the parts were written at these drive addresses."""
        runs = [Run(offset, self._blocks, *self._scales) for offset in offsets]
        return ScoreRequest(runs, self._q, self.bits, mode, self._top_k)

    def answer(self, mode: Mode) -> ScoreResult:
        """The right result."""
        places = [part * self.data.shape[1] for part in range(len(self.data))]
        [result] = NativeKernel(self.data.reshape(-1)).start([self.command(places, mode)]).wait()
        return result

    @property
    def _top_k(self) -> int:
        return max(1, len(self.data) * self._blocks // 2)


def same(got: ScoreResult, want: ScoreResult) -> bool:
    """Whether two results are equal to the byte."""
    pairs: list[tuple[npt.NDArray[np.generic] | None, npt.NDArray[np.generic] | None]] = [
        (got.total, want.total), (got.bad, want.bad), (got.positions, want.positions),
        (got.priorities, want.priorities), (got.log_mass, want.log_mass),
    ]  # fmt: skip
    return all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)
