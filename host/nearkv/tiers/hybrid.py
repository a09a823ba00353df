"""Hybrid precision (KVDrive's future work): cold blocks keep K and V in 8 or 4 bits, hot blocks in full precision.

Off unless asked for, because it changes what attention reads. A row (one token's key or value) is rotated as in the
score contract, so that no channel dominates, and gets a scale of its own.
"""

from __future__ import annotations

import numpy as np
import torch

from nearkv.contract import rotate

SCALE_BYTES = 2
CLIPS = (1.0, 0.9, 0.8, 0.7)
"""Clip ratios tried for 4-bit rows; the one of least squared error is kept."""


class RowCodec:
    """Encodes rows of ``head_dim`` floats at ``bits`` (8 or 4) each, with a float16 scale in front."""

    def __init__(self, head_dim: int, bits: int, device: torch.device | str = "cpu") -> None:
        if bits not in (4, 8):
            raise ValueError(f"cold rows hold 8 or 4 bits per value, not {bits}")
        if head_dim % 2:
            raise ValueError(f"the head size must be even, not {head_dim}")
        self.head_dim, self.bits = head_dim, bits
        self._qmax = 2 ** (bits - 1) - 1
        # rotate(x) = x @ rotation; orthonormal and symmetric, so that it undoes itself.
        self._rotation = torch.from_numpy(rotate(np.eye(head_dim)).astype(np.float32)).to(device)

    @property
    def row_bytes(self) -> int:
        """Bytes of one encoded row."""
        return SCALE_BYTES + self.head_dim * self.bits // 8

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows [..., head_dim] of any float type to uint8 [..., row_bytes]. Raises ValueError if not finite."""
        x = rows.float()
        if not bool(torch.isfinite(x).all()):
            raise ValueError("a key or value is not finite (NaN or infinity)")
        x = x @ self._rotation
        scale = self._scale(x)
        step = torch.where(scale > 0, scale, 1.0)
        codes = torch.clamp(torch.round(x / step), -self._qmax, self._qmax).to(torch.int8)
        if self.bits == 4:
            codes = (codes[..., 0::2] & 15) | (codes[..., 1::2] << 4)
        head = scale.to(torch.float16).contiguous().view(torch.uint8)
        return torch.cat([head, codes.contiguous().view(torch.uint8)], dim=-1)

    def decode(self, data: torch.Tensor) -> torch.Tensor:
        """The inverse, float32 [..., head_dim]."""
        scale = data[..., :SCALE_BYTES].contiguous().view(torch.float16).float()
        codes = data[..., SCALE_BYTES:].contiguous().view(torch.int8)
        if self.bits == 4:
            codes = torch.stack([(codes << 4) >> 4, codes >> 4], dim=-1).flatten(-2)
        rows: torch.Tensor = (codes.float() * scale) @ self._rotation
        return rows

    def _scale(self, x: torch.Tensor) -> torch.Tensor:
        """Scale per row, [..., 1], exactly representable in float16; 0 for a row of zeros."""
        full: torch.Tensor = x.abs().amax(dim=-1, keepdim=True) / self._qmax
        if self.bits == 8:
            rounded: torch.Tensor = full.to(torch.float16).float()
            return rounded
        best, least = full, torch.full_like(full, torch.inf)
        for clip in CLIPS:
            scale = (clip * full).to(torch.float16).float()
            step = torch.where(scale > 0, scale, 1.0)
            error = (x - torch.clamp(torch.round(x / step), -self._qmax, self._qmax) * step).square().sum(-1, True)
            best = torch.where(error < least, scale, best)
            least = torch.minimum(error, least)
        return best
