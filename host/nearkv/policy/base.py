"""The policy seam: a policy gives every block a value, the hot pool keeps the blocks of highest value.

A policy never moves data and never sees slots. After each step the pool asks for the values of a stream's resident
blocks and of those just fetched, and keeps as many as the stream's share of the pool holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt


class Policy(Protocol):
    """Retention values for the blocks of every stream. S = streams of one layer (sequence-major), -1 = no block."""

    def observe(self, layer: int, selected: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Learn one decode step's selection of ``layer``: block indices and priorities, both [S, k], -1 padded.

        Called once per step and layer, before :meth:`values`; the policy counts its own steps. ``priority`` is the
        share of the attention mass in units of 2^-24 (0 where the scorer did not report one).
        """

    def values(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Retention value of ``blocks`` [S, m] (-1 padded), same shape; higher stays, ties keep the lower index."""

    def forget(self, layer: int, stream: int) -> None:
        """Drop what is known of one stream of ``layer`` (its sequence ended)."""


_REGISTRY: dict[str, Callable[[], Policy]] = {}


def register(name: str) -> Callable[[Callable[[], Policy]], Callable[[], Policy]]:
    """Class decorator that makes a policy available to :func:`create` (and to every parametrised test) by name."""

    def add(factory: Callable[[], Policy]) -> Callable[[], Policy]:
        _REGISTRY[name] = factory
        return factory

    return add


def names() -> list[str]:
    """Names of all policies."""
    return sorted(_REGISTRY)


def create(name: str) -> Policy:
    """A fresh policy by name. Raises ValueError that lists the names."""
    if name not in _REGISTRY:
        raise ValueError(f"no policy is called {name!r}; there are: {', '.join(names())}")
    return _REGISTRY[name]()
