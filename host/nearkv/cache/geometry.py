"""Shapes and sizes of one layer's KV."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from nearkv.errors import UnsupportedError
from nearkv_drivers.device import ALIGNMENT
from nearkv_drivers.wire import BLOCK_TOKENS, block_bytes, row_width

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Geometry:
    """One tiered layer: ``batch`` sequences, ``kv_heads`` per sequence, head size ``head_dim``.

    A KV block is [32 tokens, 2 (K, V), head_dim] of ``dtype``, interleaved per token, in ``kv_block_bytes`` (a multiple
    of 4,096, zeros behind the values).
    """

    batch: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    bits: int

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UnsupportedError(
                f"KV of type {self.dtype} is not supported; load the model in float32, float16 or bfloat16"
            )
        row_width(self.head_dim)

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
        """Bytes of one KV block on the drive and in the hot pool."""
        return -(-self.payload_bytes // ALIGNMENT) * ALIGNMENT

    @cached_property
    def score_block_bytes(self) -> int:
        """Bytes of one score block."""
        return block_bytes(row_width(self.head_dim), self.bits)
