"""Page-aligned host memory that both the drive (O_DIRECT) and torch read and write."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from nearkv.cache.geometry import Geometry
from nearkv_drivers import address_of
from nearkv_drivers.device import ALIGNMENT
from nearkv_drivers.wire import BLOCK_TOKENS


def aligned_bytes(nbytes: int, *, pinned: bool = False) -> npt.NDArray[np.uint8]:
    """Zeroed uint8 [nbytes] at a 4 KiB boundary; ``pinned`` memory is page-locked for CUDA copies.

    Memory that is not pinned costs nothing until it is touched.
    """
    size = nbytes + ALIGNMENT
    raw = torch.zeros(size, dtype=torch.uint8, pin_memory=True).numpy() if pinned else np.zeros(size, np.uint8)
    skip = -address_of(raw) % ALIGNMENT
    return raw[skip : skip + nbytes]


class BlockBuffer:
    """[streams, blocks] KV blocks in aligned host memory, grown by doubling, never shrunk."""

    def __init__(self, geometry: Geometry, *, pinned: bool = False) -> None:
        self.geometry = geometry
        self._pinned = pinned
        self._copied: torch.cuda.Event | None = None
        self.blocks = 0
        self.bytes: npt.NDArray[np.uint8] = np.empty((geometry.streams, 0, geometry.kv_block_bytes), np.uint8)
        self.grid = block_grid(self.bytes)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.bytes.nbytes)

    def copies_started(self) -> None:
        """Copies from this buffer to an accelerator were queued on the current stream."""
        self._copied = torch.cuda.Event()
        self._copied.record()

    def wait_until_free(self) -> None:
        """Wait for queued copies, so that the buffer may be overwritten."""
        if self._copied is not None:
            self._copied.synchronize()
            self._copied = None

    def reserve(self, blocks: int) -> None:
        """Hold at least ``blocks`` blocks per stream. What was in the buffer is lost when it grows."""
        if blocks <= self.blocks:
            return
        self.blocks = blocks
        shape = (self.geometry.streams, blocks, self.geometry.kv_block_bytes)
        self.bytes = aligned_bytes(int(np.prod(shape)), pinned=self._pinned).reshape(shape)
        self.grid = block_grid(self.bytes)

    def tokens(self) -> torch.Tensor:
        """View [batch, kv_heads, blocks, 32, 2, head_dim] of the blocks' tokens (K at index 0, V at 1)."""
        return token_view(self.bytes, self.geometry)

    def put(self, sequence: int, start: int, pairs: torch.Tensor) -> None:
        """Write ``pairs`` [kv_heads, n, 2, head_dim] at tokens ``start`` onwards of ``sequence``."""
        target, done, count = self.tokens()[sequence], 0, pairs.shape[1]
        while done < count:
            block, inside = divmod(start + done, BLOCK_TOKENS)
            if inside == 0 and (whole := (count - done) // BLOCK_TOKENS):
                size = whole * BLOCK_TOKENS
                target[:, block : block + whole] = pairs[:, done : done + size].unflatten(1, (whole, BLOCK_TOKENS))
            else:
                size = min(BLOCK_TOKENS - inside, count - done)
                target[:, block, inside : inside + size] = pairs[:, done : done + size]
            done += size

    def keys_values(self, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V [batch, kv_heads, tokens, head_dim] of the first ``tokens``: views unless blocks are padded."""
        view = self.tokens()[:, :, : -(-tokens // BLOCK_TOKENS)]
        keys, values = (view[..., part, :].flatten(2, 3)[:, :, :tokens] for part in (0, 1))
        return keys, values

    def addresses(self, streams: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Host address of each (stream, position) block."""
        return self.grid[streams, positions]


def token_view(blocks: npt.NDArray[np.uint8], geometry: Geometry) -> torch.Tensor:
    """View uint8 [streams, n, kv block bytes] as [batch, kv_heads, n, 32, 2, head_dim] of the model's dtype."""
    g = geometry
    values = torch.from_numpy(blocks)[..., : g.payload_bytes].view(g.dtype)
    view: torch.Tensor = values.unflatten(-1, (BLOCK_TOKENS, 2, g.head_dim)).unflatten(0, (g.batch, g.kv_heads))
    return view


def block_grid(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Host addresses of the blocks of a contiguous uint8 [S, n, block bytes] array: uint64 [S, n]."""
    streams, count, size = blocks.shape
    return (address_of(blocks) + np.arange(streams * count, dtype=np.uint64) * np.uint64(size)).reshape(streams, count)


def aligned_blocks(pairs: torch.Tensor, geometry: Geometry) -> npt.NDArray[np.uint8]:
    """Copy one block per head (``pairs`` [kv_heads, 32, 2, head_dim]) into aligned memory of its own.

    Returns uint8 [kv_heads, kv block bytes].
    """
    g = geometry
    blocks = aligned_bytes(g.kv_heads * g.kv_block_bytes).reshape(g.kv_heads, g.kv_block_bytes)
    one = Geometry(1, g.kv_heads, g.head_dim, g.dtype, g.bits)
    token_view(blocks[:, None], one)[0, :, 0] = pairs
    return blocks
