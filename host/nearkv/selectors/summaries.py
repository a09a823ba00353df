"""Summaries that a first stage keeps in DRAM for every block, grown as blocks are sealed.

Every kind is a class of its own in the file of its name, and is the selector of that name too: a selector is a table
of one stream that got all its blocks at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearkv.selectors.base import FloatArray, Selector, as_blocks, register
from nearkv_drivers import summary

IntArray = npt.NDArray[np.int64]

GROWTH_BLOCKS = 64
"""Blocks by which a table grows beyond what it was made for."""


def per_block(blocks: int) -> int:
    """Rows of a field with one row per block."""
    return blocks


def per_stream(blocks: int) -> int:
    """Rows of a field with one row, whatever the stream's length."""
    return 1


@dataclass(frozen=True)
class Field:
    """One array of a table: a stream of n blocks has ``rows(n)`` rows of ``width`` values of ``dtype`` in it."""

    rows: Callable[[int], int]
    width: int
    dtype: npt.DTypeLike

    def nbytes(self, blocks: int) -> int:
        """Bytes that a stream of ``blocks`` blocks takes."""
        return self.rows(blocks) * self.width * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Estimate:
    """Estimated log-mass (natural units) float32 [R, G, n], without meaning behind a stream's count, and the bytes of
    summaries that were read for it."""

    log_mass: FloatArray
    bytes_read: int


class SummaryTable(ABC):
    """What one kind of summary keeps of the blocks of ``streams`` streams with head size ``head_dim``.

    ``most_blocks`` is how many blocks of a stream may have a summary (those beyond have none); None: the table grows
    with its streams, from ``expected_blocks`` on. ``values`` is the type of what is kept of keys.
    """

    def __init__(
        self,
        streams: int,
        head_dim: int,
        most_blocks: int | None,
        expected_blocks: int = 0,
        values: npt.DTypeLike = np.float16,
    ) -> None:
        self._limit = most_blocks
        self._capacity = expected_blocks if most_blocks is None else most_blocks
        self._fields = self.fields(head_dim, values)
        self._arrays = {
            name: np.zeros((streams, field.rows(self._capacity), field.width), field.dtype)
            for name, field in self._fields.items()
        }
        self.count = np.zeros(streams, np.int64)
        """Blocks of each stream that have a summary: its first ones."""

    @classmethod
    @abstractmethod
    def fields(cls, head_dim: int, values: npt.DTypeLike) -> dict[str, Field]:
        """The arrays of a table."""

    @abstractmethod
    def _keep(self, stream: int, first: int, keys: FloatArray) -> None:
        """Take in ``keys`` [n, 32, d], n > 0, of blocks ``first`` and following; there is room for them."""

    @abstractmethod
    def _estimate(self, streams: IntArray, counts: IntArray, queries: FloatArray) -> Estimate:
        """See :meth:`estimate`; ``queries`` are scaled."""

    @classmethod
    def stream_bytes(cls, head_dim: int, blocks: int) -> int:
        """Bytes held per stream whose summaries are made for ``blocks`` blocks."""
        return sum(field.nbytes(blocks) for field in cls.fields(head_dim, np.float16).values())

    @classmethod
    def query_bytes(cls, head_dim: int, blocks: int) -> int:
        """Bytes that an estimate for one query of a stream of ``blocks`` blocks reads, on average."""
        return cls.stream_bytes(head_dim, blocks)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self._arrays.values())

    def add(self, stream: int, first: int, keys: FloatArray) -> None:
        """Blocks ``first`` and following of ``stream`` hold ``keys`` (float32 [n, 32, d])."""
        have = int(self.count[stream])
        assert first == have or have == self._limit, "summaries follow each other"
        room = len(keys) if self._limit is None else min(self._limit - have, len(keys))
        if room <= 0:
            return
        self._reserve(have + room)
        self._keep(stream, have, keys[:room])
        self.count[stream] = have + room

    def estimate(self, streams: IntArray, counts: IntArray, queries: FloatArray, scale: float) -> Estimate:
        """Of the first ``counts`` [R] blocks of ``streams`` [R] for ``queries`` (float32 [R, G, d])."""
        return self._estimate(streams, counts, queries * np.float32(scale))

    def shares(
        self, streams: IntArray, counts: IntArray, queries: FloatArray, scale: float, outside: FloatArray
    ) -> tuple[FloatArray, int]:
        """Estimated shares of the attention mass of the first ``counts`` [R] blocks of ``streams`` [R]: float32 [R, n].

        ``queries`` is float32 [R, G, d], ``scale`` the softmax scale; ``outside`` float32 [R, G] is the log-mass
        (natural units) of the tokens that have no summary. Shares are averaged over the heads, 0 behind a stream's
        count. Also returns the bytes of summaries that were read.
        """
        estimate = self.estimate(streams, counts, queries, scale)
        return summary.shares(estimate.log_mass, counts, outside), estimate.bytes_read

    def _reserve(self, blocks: int) -> None:
        """Make room for ``blocks`` blocks of every stream."""
        if blocks <= self._capacity:
            return
        self._capacity = blocks + GROWTH_BLOCKS
        for name, old in self._arrays.items():
            rows = self._fields[name].rows(self._capacity)
            self._arrays[name] = np.pad(old, ((0, 0), (0, rows - old.shape[1]), (0, 0)))


class StreamSelector:
    """The selector that a kind of summary is: a table of one stream, in single precision.

    ``nbytes`` counts what one query reads at the precision in which a first stage keeps it.
    """

    def __init__(self, kind: type[SummaryTable], keys: FloatArray) -> None:
        blocks = as_blocks(keys)
        self._table = kind(1, keys.shape[1], len(blocks), values=np.float32)
        self._table.add(0, 0, blocks)
        self.nbytes = kind.query_bytes(keys.shape[1], len(blocks))

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """See Selector."""
        one_stream = np.zeros(1, np.int64)
        log_mass: FloatArray = self._table.estimate(one_stream, self._table.count, queries[None], scale).log_mass[0]
        return log_mass


SUMMARIES: dict[str, type[SummaryTable]] = {}
"""The selectors that can be a first stage, by their name there."""


def summarises(name: str) -> Callable[[type[SummaryTable]], type[SummaryTable]]:
    """Decorator that makes a kind of summary available by ``name``: as a selector and as a first stage."""

    def add(kind: type[SummaryTable]) -> type[SummaryTable]:
        def selector(keys: FloatArray) -> Selector:
            return StreamSelector(kind, keys)

        register(name)(selector)
        SUMMARIES[name] = kind
        return kind

    return add
