"""The orthonormal rotation of keys and queries (contract §1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def hadamard_span(head_dim: int) -> int:
    """Largest power of two that divides ``head_dim``: the size of the Hadamard blocks."""
    return head_dim & -head_dim


def rotate(rows: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Rotate ``rows`` [..., d] by Sylvester-Hadamard blocks along the last axis; returns float64 [..., d].

    Butterflies of span 1, 2, 4, ... in float64, then one multiply by 1/sqrt(n): every implementation that keeps
    this order computes the same float64 values.
    """
    x = np.asarray(rows, np.float64)
    n = hadamard_span(x.shape[-1])
    shape = x.shape
    x = x.reshape(-1, n)
    span = 1
    while span < n:
        pairs = x.reshape(-1, n // (2 * span), 2, span)
        low, high = pairs[:, :, 0], pairs[:, :, 1]
        x = np.stack([low + high, low - high], axis=2).reshape(-1, n)
        span *= 2
    return np.asarray((x * (1.0 / np.sqrt(n))).reshape(shape), np.float64)
