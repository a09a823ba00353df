"""The newest tokens of a layer: recent sealed blocks and the unsealed tail, in memory beside the model."""

from __future__ import annotations

import torch

from nearkv.cache.geometry import Geometry
from nearkv_drivers.wire import BLOCK_TOKENS


class Tail:
    """Tokens [start, length) of every sequence; ``start`` is a multiple of 32.

    ``pairs`` is [batch, kv_heads, (recent + 1) * 32, 2, head_dim] on the model's device. A sequence whose window is
    full of sealed blocks gives up its oldest block, so at least ``recent`` sealed blocks stay once there are as many.
    """

    def __init__(self, geometry: Geometry, recent_blocks: int, device: torch.device) -> None:
        g = geometry
        self.capacity = (recent_blocks + 1) * BLOCK_TOKENS
        self.pairs = torch.zeros(g.batch, g.kv_heads, self.capacity, 2, g.head_dim, dtype=g.dtype, device=device)
        self.start = [0] * g.batch
        self.length = [0] * g.batch
        self._recent = recent_blocks

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.pairs.nbytes

    def count(self, sequence: int) -> int:
        """Tokens of ``sequence`` in the window."""
        return self.length[sequence] - self.start[sequence]

    @property
    def counts(self) -> list[int]:
        """Tokens of every sequence in the window."""
        return [length - start for length, start in zip(self.length, self.start, strict=True)]

    def window(self, sequence: int) -> torch.Tensor:
        """The window's tokens [kv_heads, count, 2, head_dim] of ``sequence``."""
        return self.pairs[sequence, :, : self.count(sequence)]

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> list[int]:
        """Add one token to every sequence (``keys``, ``values`` [batch, kv_heads, 1, head_dim]).

        Returns the sequences whose newest block is complete and must be sealed; see :meth:`newest_block`.
        """
        complete = []
        for sequence in range(len(self.length)):
            if self.count(sequence) == self.capacity:
                self._give_up_oldest(sequence)
            at = self.count(sequence)
            self.pairs[sequence, :, at, 0] = keys[sequence, :, 0]
            self.pairs[sequence, :, at, 1] = values[sequence, :, 0]
            self.length[sequence] += 1
            if self.length[sequence] % BLOCK_TOKENS == 0:
                complete.append(sequence)
        return complete

    def newest_block(self, sequence: int) -> torch.Tensor:
        """The last 32 tokens [kv_heads, 32, 2, head_dim] of ``sequence``."""
        count = self.count(sequence)
        return self.pairs[sequence, :, count - BLOCK_TOKENS : count]

    def load(self, sequence: int, length: int, tokens: torch.Tensor) -> None:
        """Keep the window of ``length`` tokens [kv_heads, blocks, 32, 2, head_dim] that a prefill staged."""
        start = max(0, length // BLOCK_TOKENS - self._recent) * BLOCK_TOKENS
        self.start[sequence], self.length[sequence] = start, length
        blocks = tokens[:, start // BLOCK_TOKENS : -(-length // BLOCK_TOKENS)]
        self.pairs[sequence, :, : length - start] = blocks.flatten(1, 2)[:, : length - start]

    def _give_up_oldest(self, sequence: int) -> None:
        window = self.pairs[sequence]
        window[:, :-BLOCK_TOKENS] = window[:, BLOCK_TOKENS:].clone()
        self.start[sequence] += BLOCK_TOKENS
