"""Quest's bounds in one byte per value: small enough to stay in DRAM for every block of a long context."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.selectors.base import FloatArray
from nearkv.selectors.linear import LOG_TOKENS, per_block
from nearkv.selectors.quest import extremes, sides
from nearkv.selectors.summaries import Estimate, Field, IntArray, SummaryTable, summarises
from nearkv_drivers import summary

RANGE_MARGIN = 1 / 8
"""Share by which a channel's range is widened beyond a new extreme, so that it seldom has to be widened again."""


def _per_stream(blocks: int) -> int:
    return 1


@summarises("quest_int8")
class QuestInt8(SummaryTable):
    """Minimum and maximum in 255 steps of each channel's range over the stream, rounded outward: still a bound.

    1/64 of the KV's bytes at float16, whatever the head size, and two float32 per channel of a stream. The range grows
    where new blocks leave it; the codes of earlier blocks are then written anew, rounded outward again.
    """

    @classmethod
    def fields(cls, head_dim: int, values: npt.DTypeLike) -> dict[str, Field]:
        """See SummaryTable; what is kept has its own precision."""
        channels = Field(_per_stream, head_dim, np.float32)
        return {"rows": Field(per_block, 2 * head_dim, np.uint8), "offset": channels, "step": channels}

    def _keep(self, stream: int, first: int, keys: FloatArray) -> None:
        low, high = np.split(extremes(keys), 2, axis=1)
        self._cover(stream, first, low.min(axis=0), high.max(axis=0))
        self._arrays["rows"][stream, first : first + len(keys)] = self._outward(stream, low, high)

    def _cover(self, stream: int, have: int, least: FloatArray, most: FloatArray) -> None:
        """Let the stream's range hold ``least`` and ``most`` [d]; its first ``have`` rows follow."""
        offset, step = self._arrays["offset"][stream, 0], self._arrays["step"][stream, 0]
        old_low, old_step = offset.copy(), step.copy()
        if have:
            old_high = old_low + 255 * old_step
            margin = RANGE_MARGIN * (old_high - old_low)
            least = np.where(least < old_low, np.minimum(least, old_low - margin), old_low)
            most = np.where(most > old_high, np.maximum(most, old_high + margin), old_high)
        offset[:] = least
        step[:] = np.maximum((most - least) / 255, np.finfo(np.float32).tiny)
        if have and ((offset != old_low) | (step != old_step)).any():
            rows = self._arrays["rows"][stream, :have]
            kept = rows.astype(np.float32) * np.tile(old_step, 2) + np.tile(old_low, 2)
            rows[:] = self._outward(stream, *np.split(kept, 2, axis=1))

    def _outward(self, stream: int, low: FloatArray, high: FloatArray) -> npt.NDArray[np.uint8]:
        offset, step = self._arrays["offset"][stream, 0], self._arrays["step"][stream, 0]
        codes = np.concatenate([np.floor((low - offset) / step), np.ceil((high - offset) / step)], axis=1)
        return np.asarray(np.clip(codes, 0, 255), np.uint8)

    def _estimate(self, streams: IntArray, counts: IntArray, queries: FloatArray) -> Estimate:
        """Never below the exact log-mass, up to rounding in float32."""
        rows, offset, step = (self._arrays[name] for name in ("rows", "offset", "step"))
        features = sides(queries)
        features.reshape(*queries.shape[:2], 2, -1)[:] *= step[streams][:, None]
        base = np.matmul(queries, offset[streams, 0, :, None]) + LOG_TOKENS
        read = int(counts.sum()) * rows.shape[2] + len(streams) * 2 * offset[0].nbytes
        return Estimate(summary.products(rows, streams, counts, features) + base, read)
