"""Sliding-window layers: bounded, so they stay in DRAM; grown in place instead of concatenated per token."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicSlidingWindowLayer


class WindowLayer(DynamicSlidingWindowLayer):
    """A sliding-window layer whose decode step costs no copy of the window.

    Tokens are appended to a buffer of twice the window; when it is full, the window moves to its start. Returns the
    same tensors as the base class.
    """

    def __init__(self, sliding_window: int, **kwargs: Any) -> None:
        super().__init__(sliding_window, **kwargs)
        self._buffer: torch.Tensor | None = None
        self._end = 0

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Append [batch, kv_heads, n, head_dim]; returns the keys and values that the queries may see."""
        if key_states.shape[2] != 1 or not self.is_initialized:
            self._buffer = None
            return super().update(key_states, value_states, *args, **kwargs)
        keep = self.sliding_window - 1
        if self._buffer is None or self._end == self._buffer.shape[3]:
            self._restart()
        assert self._buffer is not None
        self._buffer[0, :, :, self._end] = key_states[:, :, 0]
        self._buffer[1, :, :, self._end] = value_states[:, :, 0]
        self._end += 1
        self.cumulative_length += 1
        seen = self._buffer[..., max(self._end - keep - 1, 0) : self._end, :]
        self.keys, self.values = seen[:, :, :, -keep:]
        return seen[0], seen[1]

    def _restart(self) -> None:
        """Move what is kept to the start of a fresh buffer."""
        assert self.keys is not None
        assert self.values is not None
        kept = torch.stack([self.keys, self.values])
        batch, heads, count, head_dim = kept.shape[1:]
        self._buffer = kept.new_empty(2, batch, heads, 2 * self.sliding_window, head_dim)
        self._buffer[:, :, :, :count] = kept
        self._end = count

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        if self._buffer is not None:
            return self._buffer.nbytes
        return sum(part.nbytes for part in (self.keys, self.values) if part is not None)
