"""Hybrid precision (KVDrive's future work): cold K and V in 8 or 4 bits, what never left DRAM in full precision.

A block is encoded when it is sealed, and only its codes are written: one write per block, of fewer bytes. What comes
back from the drive is decoded where it was read to, so pool and attention see the model's type only. The codes fill
whole pages by themselves, so the scale of each row (a bfloat16) stays in host memory, beside the block's address and
CRC.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from nearkv.cache.buffers import aligned_bytes
from nearkv.cache.geometry import Geometry
from nearkv.errors import MemoryLimitError
from nearkv_drivers import address_of, row_codec
from nearkv_drivers.wire import BLOCK_TOKENS, ContractError

GROWTH_BLOCKS = 64
"""Blocks by which the scales of every stream grow where no limit bounds them."""


class ColdBlocks:
    """Codec and scales of one layer's blocks.

    ``most_blocks`` is how many blocks of a stream may have scales; None: they grow with the streams, from
    ``expected_blocks`` on.
    """

    def __init__(self, layer: int, geometry: Geometry, most_blocks: int | None, expected_blocks: int = 0) -> None:
        assert geometry.cold_bits is not None
        self.layer, self.geometry, self._limit = layer, geometry, most_blocks
        self._form = geometry.head_dim, geometry.cold_bits, str(geometry.dtype).removeprefix("torch.")
        capacity = expected_blocks if most_blocks is None else most_blocks
        self._scales = np.zeros((geometry.streams, capacity, row_codec.ROWS), np.uint16)
        # Codes are read to the end of the place that a block takes in memory, and decoded from there over all of it.
        self._skip = np.uint64(geometry.kv_block_bytes - geometry.drive_block_bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of host memory that the scales take."""
        return self._scales.nbytes

    def encode(self, streams: range, blocks: npt.NDArray[np.uint8], first: int) -> npt.NDArray[np.uint8]:
        """What the drive gets of ``blocks`` (uint8 [R, n, kv block bytes]), which are ``first`` and following.

        Returns uint8 [R, n, drive block bytes], aligned. Raises ContractError naming layer, head and token of a key or
        value that is not finite, and MemoryLimitError where the scales would leave the DRAM limit.
        """
        rows, count, size = *blocks.shape[:2], self.geometry.drive_block_bytes
        self._reserve(first + count)
        codes = aligned_bytes(rows * count * size).reshape(rows * count, size)
        offsets = np.arange(rows)[:, None] * blocks.strides[0] + np.arange(count) * blocks.strides[1]
        sources = (address_of(blocks) + offsets).astype(np.uint64).reshape(-1)
        scales, bad = row_codec.encode(sources, codes, *self._form)
        if bad is not None:
            raise self._refused(streams, blocks, first, bad)
        self._scales[streams.start : streams.stop, first : first + count] = scales.reshape(rows, count, -1)
        return codes.reshape(rows, count, size)

    def landing(self, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Where the codes of blocks that belong at host ``addresses`` [n] are to be read to."""
        return addresses + self._skip

    def decode(
        self, streams: npt.NDArray[np.int64], blocks: npt.NDArray[np.int64], addresses: npt.NDArray[np.uint64]
    ) -> None:
        """Decode ``blocks`` of ``streams`` at host ``addresses``, all [n], whose codes were read and checked."""
        row_codec.decode(self.landing(addresses), self._scales[streams, blocks], addresses, *self._form)

    def _reserve(self, blocks: int) -> None:
        have = self._scales.shape[1]
        if blocks <= have:
            return
        if self._limit is not None:
            raise MemoryLimitError(
                f"layer {self.layer}: the context has grown beyond expected_tokens, and the scales of its cold blocks "
                f"beyond the DRAM limit ({blocks * BLOCK_TOKENS:,} tokens are more than {have * BLOCK_TOKENS:,}): give "
                "more expected_tokens"
            )
        more = max(blocks - have, GROWTH_BLOCKS)
        self._scales = np.pad(self._scales, ((0, 0), (0, more), (0, 0)))

    def _refused(self, streams: range, blocks: npt.NDArray[np.uint8], first: int, bad: int) -> ContractError:
        """Names the value in row number ``bad`` of ``blocks`` that has no code."""
        block, row = divmod(bad, row_codec.ROWS)
        stream, at = divmod(block, blocks.shape[1])
        g = self.geometry
        sequence, head = divmod(streams[stream], g.kv_heads)
        values = torch.from_numpy(blocks[stream, at, : g.payload_bytes]).view(g.dtype).view(row_codec.ROWS, g.head_dim)
        what = "too large for cold_bits" if bool(values[row].isfinite().all()) else "not finite (NaN or infinity)"
        return ContractError(
            f"layer {self.layer}, KV head {head}, sequence {sequence}: the {'value' if row % 2 else 'key'} of token "
            f"{(first + at) * BLOCK_TOKENS + row // 2} is {what}"
        )
