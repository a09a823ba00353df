"""Summaries that a first stage keeps in DRAM for every block, grown as blocks are sealed.

Quest's bounds, the mean key and the Gaussian estimate are all linear in what they keep of a block: the estimate is the
product of a query's features and the block's row. So the estimates of a whole layer are one batched product, and a
block is added without looking at the earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from nearkv.selectors.base import FloatArray
from nearkv_drivers import summary
from nearkv_drivers.wire import BLOCK_TOKENS

GROWTH_BLOCKS = 64
"""Rows by which a table grows beyond what it was made for."""

RANGE_MARGIN = 1 / 8
"""Share by which a channel's range is widened beyond a new extreme, so that it seldom has to be widened again."""


@dataclass(frozen=True)
class LinearSummary:
    """``rows`` maps keys [n, 32, d] to [n, width · d], ``features`` queries [..., d] (scaled) to [..., width · d].

    The log-mass of a block is estimated as their product, plus log 32. ``bounds`` says that the rows are per-channel
    minima, then maxima, and are kept in one byte per value, rounded outward; else they are kept in float16.
    """

    width: int
    rows: Callable[[FloatArray], FloatArray]
    features: Callable[[FloatArray], FloatArray]
    bounds: bool = False

    def row_bytes(self, head_dim: int) -> int:
        """Bytes kept per block of a stream."""
        return self.width * head_dim * (1 if self.bounds else 2)

    def stream_bytes(self, head_dim: int) -> int:
        """Bytes kept per stream, whatever its length."""
        return 2 * 4 * head_dim if self.bounds else 0


def _extremes(keys: FloatArray) -> FloatArray:
    return np.concatenate([keys.min(axis=1), keys.max(axis=1)], axis=1)


def _sides(queries: FloatArray) -> FloatArray:
    return np.concatenate([np.minimum(queries, 0), np.maximum(queries, 0)], axis=-1)


def _mean(keys: FloatArray) -> FloatArray:
    return np.asarray(keys.mean(axis=1), np.float32)


def _moments(keys: FloatArray) -> FloatArray:
    return np.concatenate([keys.mean(axis=1), keys.var(axis=1)], axis=1)


SUMMARIES = {
    "quest": LinearSummary(2, _extremes, _sides),
    "quest_int8": LinearSummary(2, _extremes, _sides, bounds=True),
    "mean_key": LinearSummary(1, _mean, lambda q: q),
    "mean_variance": LinearSummary(2, _moments, lambda q: np.concatenate([q, np.square(q) / 2], axis=-1)),
}
"""The selectors that can be a first stage, by their name there."""


class SummaryTable:
    """The rows of ``streams`` streams with head size ``head_dim``.

    ``most_blocks`` is how many rows a stream may have (blocks beyond have none); None: it grows with the stream, from
    ``expected_blocks`` on.
    """

    def __init__(
        self, kind: LinearSummary, streams: int, head_dim: int, most_blocks: int | None, expected_blocks: int = 0
    ) -> None:
        self._kind, self._limit = kind, most_blocks
        values = np.uint8 if kind.bounds else np.float16
        capacity = expected_blocks if most_blocks is None else most_blocks
        self._rows = np.zeros((streams, capacity, kind.width * head_dim), values)
        self._offset = np.zeros((streams, head_dim if kind.bounds else 0), np.float32)
        self._step = np.zeros_like(self._offset)
        self.count = np.zeros(streams, np.int64)
        """Blocks of each stream that have a row: its first ones."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._rows.nbytes + self._offset.nbytes + self._step.nbytes

    @property
    def row_bytes(self) -> int:
        """Bytes read per block and estimate."""
        return self._rows.shape[2] * self._rows.itemsize

    def add(self, stream: int, first: int, keys: FloatArray) -> None:
        """Blocks ``first`` and following of ``stream`` hold ``keys`` (float32 [n, 32, d])."""
        have = int(self.count[stream])
        assert first == have or have == self._limit, "rows follow each other"
        room = len(keys) if self._limit is None else min(self._limit - have, len(keys))
        if room <= 0:
            return
        self._reserve(have + room)
        rows = self._kind.rows(keys[:room])
        self._rows[stream, have : have + room] = self._codes(stream, rows) if self._kind.bounds else rows
        self.count[stream] = have + room

    def shares(
        self,
        streams: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        queries: FloatArray,
        scale: float,
        outside: FloatArray,
    ) -> FloatArray:
        """Estimated share of the attention mass of the first ``counts`` [R] blocks of ``streams`` [R]: float32 [R, n].

        ``queries`` is float32 [R, G, d], ``scale`` the softmax scale; ``outside`` float32 [R, G] is the log-mass
        (natural units) of the tokens that have no row. Shares are averaged over the heads, 0 behind a stream's count.
        """
        features = self._kind.features(queries * np.float32(scale))
        outside = outside - np.float32(math.log(BLOCK_TOKENS))
        if self._kind.bounds:
            offset, step = self._offset[streams], self._step[streams]
            features = features.reshape(*queries.shape[:2], 2, -1) * step[:, None, None]
            outside = outside - np.matmul(queries, offset[:, :, None])[..., 0] * np.float32(scale)
            return summary.shares(
                self._rows, streams, counts, features.reshape(*queries.shape[:2], -1), outside.astype(np.float32)
            )
        most = int(counts.max())
        rows = torch.from_numpy(self._rows[streams, :most]).float()
        estimate = torch.bmm(torch.from_numpy(features), rows.transpose(1, 2))
        estimate.masked_fill_(torch.from_numpy(np.arange(most) >= counts[:, None])[:, None], -torch.inf)
        weights = torch.softmax(torch.cat([estimate, torch.from_numpy(outside)[..., None]], dim=2), dim=2)
        mean: FloatArray = weights[..., :most].mean(dim=1).numpy()
        return mean

    def _codes(self, stream: int, rows: FloatArray) -> npt.NDArray[np.uint8]:
        """``rows`` (minima, then maxima) in steps of the stream's range, which grows where they leave it."""
        low, high = np.split(rows, 2, axis=1)
        have = int(self.count[stream])
        old_low, old_step = self._offset[stream].copy(), self._step[stream].copy()
        least, most = low.min(axis=0), high.max(axis=0)
        if have:
            old_high = old_low + 255 * old_step
            margin = RANGE_MARGIN * (old_high - old_low)
            least = np.where(least < old_low, np.minimum(least, old_low - margin), old_low)
            most = np.where(most > old_high, np.maximum(most, old_high + margin), old_high)
        step = np.maximum((most - least) / 255, np.finfo(np.float32).tiny)
        self._offset[stream], self._step[stream] = least, step
        if have and ((least != old_low) | (step != old_step)).any():
            kept = self._rows[stream, :have].astype(np.float32) * np.tile(old_step, 2) + np.tile(old_low, 2)
            self._rows[stream, :have] = self._outward(stream, *np.split(kept, 2, axis=1))
        return self._outward(stream, low, high)

    def _outward(self, stream: int, low: FloatArray, high: FloatArray) -> npt.NDArray[np.uint8]:
        offset, step = self._offset[stream], self._step[stream]
        codes = np.concatenate([np.floor((low - offset) / step), np.ceil((high - offset) / step)], axis=1)
        return np.asarray(np.clip(codes, 0, 255), np.uint8)

    def _reserve(self, blocks: int) -> None:
        have = self._rows.shape[1]
        if blocks > have:
            self._rows = np.pad(self._rows, ((0, 0), (0, blocks + GROWTH_BLOCKS - have), (0, 0)))
