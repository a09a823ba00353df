"""The selector seam: what is kept of a stream's keys, and the log-mass it lets one estimate for every block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nearkv_drivers.wire import BLOCK_TOKENS

FloatArray = npt.NDArray[np.float32]


class Selector(Protocol):
    """Built once from the keys of one stream's full blocks; estimates for any query after that."""

    nbytes: int
    """Bytes that :meth:`estimate` reads, as they would be stored (float16 unless the selector says otherwise)."""

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """Estimated log-mass (natural units) of every block for ``queries`` [N, d]: float32 [N, blocks].

        ``scale`` is the attention's softmax scale. The exact value is log Σ exp(scale · q·k) over a block's tokens.
        """


_REGISTRY: dict[str, Callable[[FloatArray], Selector]] = {}


def register(name: str) -> Callable[[Callable[[FloatArray], Selector]], Callable[[FloatArray], Selector]]:
    """Decorator that makes a selector (or a function that builds one from keys) available by ``name``."""

    def add(factory: Callable[[FloatArray], Selector]) -> Callable[[FloatArray], Selector]:
        _REGISTRY[name] = factory
        return factory

    return add


def names() -> list[str]:
    """Names of all selectors."""
    return sorted(_REGISTRY)


def create(name: str, keys: npt.ArrayLike) -> Selector:
    """Build the selector ``name`` for ``keys`` (float [n, d], n a multiple of 32).

    Raises ValueError for an unknown name (it lists the names), or keys that are not whole blocks.
    """
    if name not in _REGISTRY:
        raise ValueError(f"no selector is called {name!r}; there are: {', '.join(names())}")
    rows = np.ascontiguousarray(keys, np.float32)
    if rows.ndim != 2 or not rows.shape[0] or rows.shape[0] % BLOCK_TOKENS:
        raise ValueError(f"keys must be [a multiple of {BLOCK_TOKENS} tokens, head size], not {list(rows.shape)}")
    return _REGISTRY[name](rows)


def as_blocks(keys: FloatArray) -> FloatArray:
    """Keys [n, d] as [blocks, 32, d]."""
    return keys.reshape(-1, BLOCK_TOKENS, keys.shape[1])


def exact_log_mass(queries: FloatArray, keys: FloatArray, scale: float) -> FloatArray:
    """Log-mass (natural units) of every block of ``keys`` [n, d] for ``queries`` [N, d]: float32 [N, blocks]."""
    return block_log_mass(np.asarray((queries * np.float32(scale)) @ keys.T, np.float32))


def block_log_mass(scores: FloatArray) -> FloatArray:
    """log Σ exp over the tokens of each block of ``scores`` [N, n]; a block of -inf only has -inf."""
    blocks = scores.reshape(scores.shape[0], -1, BLOCK_TOKENS)
    peak = blocks.max(axis=2, keepdims=True)
    safe = np.where(np.isfinite(peak), peak, np.float32(0))
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(blocks - safe).sum(axis=2))
    return np.asarray(safe[:, :, 0] + total, np.float32)
