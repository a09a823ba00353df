"""Shapes and sizes of one layer's KV."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from nearkv.errors import UnsupportedError
from nearkv_drivers.device import ALIGNMENT
from nearkv_drivers.row_codec import ROWS, SCALE_BYTES, code_bytes
from nearkv_drivers.wire import BLOCK_TOKENS, block_bytes, row_width

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Geometry:
    """One tiered layer: ``batch`` sequences, ``kv_heads`` per sequence, head size ``head_dim``.

    A KV block is [32 tokens, 2 (K, V), head_dim] of ``dtype``, interleaved per token, in ``kv_block_bytes`` (a multiple
    of 4,096, zeros behind the values). On the drive it takes ``drive_block_bytes``: as many, or fewer where
    ``cold_bits`` says that K and V lie there in 8 or 4 bits per value.
    """

    batch: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    bits: int
    cold_bits: int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UnsupportedError(
                f"KV of type {self.dtype} is not supported; load the model in float32, float16 or bfloat16"
            )
        row_width(self.head_dim)
        if self.cold_bits is not None and self.drive_block_bytes == self.kv_block_bytes:
            raise UnsupportedError(
                f"cold_bits={self.cold_bits} saves nothing at head size {self.head_dim} in {self.dtype}: a KV block "
                f"takes {self.kv_block_bytes:,} bytes of whole pages either way; leave cold_bits off"
            )

    @property
    def streams(self) -> int:
        """Streams S of the layer, sequence-major: stream = sequence * kv_heads + head."""
        return self.batch * self.kv_heads

    @cached_property
    def token_bytes(self) -> int:
        """Bytes of K and V of one token of one stream."""
        return 2 * self.head_dim * self.dtype.itemsize

    @cached_property
    def payload_bytes(self) -> int:
        """Bytes of K and V of one block, without padding."""
        return BLOCK_TOKENS * self.token_bytes

    @cached_property
    def kv_block_bytes(self) -> int:
        """Bytes of one KV block in host memory: in the hot pool and in buffers."""
        return -(-self.payload_bytes // ALIGNMENT) * ALIGNMENT

    @cached_property
    def drive_payload_bytes(self) -> int:
        """Bytes of K and V of one block on the drive, without padding."""
        return self.payload_bytes if self.cold_bits is None else code_bytes(self.head_dim, self.cold_bits)

    @cached_property
    def drive_block_bytes(self) -> int:
        """Bytes of one KV block on the drive."""
        return -(-self.drive_payload_bytes // ALIGNMENT) * ALIGNMENT

    @property
    def cold_scale_bytes(self) -> int:
        """Bytes of host memory that the scales of one block's codes take; 0 where K and V are not encoded."""
        return 0 if self.cold_bits is None else ROWS * SCALE_BYTES

    @cached_property
    def score_block_bytes(self) -> int:
        """Bytes of one score block."""
        return block_bytes(row_width(self.head_dim), self.bits)
