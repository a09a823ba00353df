"""The newest tokens of a layer: recent sealed blocks and the unsealed tail, in memory beside the model."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from nearkv.cache.geometry import Geometry
from nearkv_drivers.wire import BLOCK_TOKENS


class StreamWindows(NamedTuple):
    """Per stream int64 [S]: ``first_block``, where the window starts, and its ``tokens``.

    ``blocks`` int32 [S, n] are the numbers of the blocks in it, the unsealed one included, -1 padded.
    """

    first_block: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    blocks: npt.NDArray[np.int32]


@lru_cache(2)
def _stream_windows(start: tuple[int, ...], length: tuple[int, ...], kv_heads: int) -> StreamWindows:
    """The same for all layers of a step, hence the cache."""
    starts, lengths = (np.repeat(np.array(each, np.int64), kv_heads) for each in (start, length))
    first, count = starts // BLOCK_TOKENS, -(-lengths // BLOCK_TOKENS)
    within = first[:, None] + np.arange(int((count - first).max()))
    blocks = np.where(within < count[:, None], within, -1).astype(np.int32)
    windows = StreamWindows(first, lengths - starts, blocks)
    for array in windows:
        array.flags.writeable = False
    return windows


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

    @property
    def streams(self) -> StreamWindows:
        """The windows by stream."""
        return _stream_windows(tuple(self.start), tuple(self.length), self.pairs.shape[1])

    def window(self, sequence: int) -> torch.Tensor:
        """The window's tokens [kv_heads, count, 2, head_dim] of ``sequence``."""
        return self.pairs[sequence, :, : self.count(sequence)]

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> list[int]:
        """Add one token to every sequence (``keys``, ``values`` [batch, kv_heads, 1, head_dim]).

        Returns the sequences whose newest block is complete and must be sealed; see :meth:`newest_block`.
        """
        tokens = torch.stack([keys, values], dim=3)
        for sequence, count in enumerate(self.counts):
            if count == self.capacity:
                self._give_up_oldest(sequence)
        counts = self.counts
        if counts.count(counts[0]) == len(counts):
            self.pairs.narrow(2, counts[0], 1).copy_(tokens)
        else:
            for sequence, count in enumerate(counts):
                self.pairs[sequence].narrow(1, count, 1).copy_(tokens[sequence])
        self.length = [length + 1 for length in self.length]
        return [sequence for sequence, length in enumerate(self.length) if length % BLOCK_TOKENS == 0]

    @property
    def leaving(self) -> list[int]:
        """Per sequence the number of the block that the next token pushes out of the window, or -1."""
        return [
            start // BLOCK_TOKENS if count == self.capacity else -1
            for start, count in zip(self.start, self.counts, strict=True)
        ]

    @property
    def oldest_blocks(self) -> torch.Tensor:
        """The first 32 tokens [batch, kv_heads, 32, 2, head_dim] of every window: a view."""
        return self.pairs[:, :, :BLOCK_TOKENS]

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
