"""The SmartSSD article's alpha taken literally: the newest blocks stay hot whatever the policy makes of them.

It works beside any policy, and is off by default: on recorded texts it costs hit rate (docs/policies.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_ABOVE_ALL = np.iinfo(np.int64).max - 2**31


class PinNewest:
    """Lifts the values of the newest blocks of each of ``streams`` streams: ``share`` of what its pool holds.

    Sinks have slots of their own and count in no quota here.
    """

    def __init__(self, share: float, streams: int) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"pin_newest is a share of the hot blocks from 0 to 1, not {share:g}")
        self._share = share
        self._newest = np.full(streams, -1, np.int32)

    def lift(
        self, values: npt.NDArray[np.int64], blocks: npt.NDArray[np.int32], quota: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """``values`` [S, m] of ``blocks`` [S, m] (-1 padded) for a pool of ``quota`` [S] blocks.

        The newest block is the highest one that was ever given. Among pinned blocks the newer ones have higher values.
        """
        self._newest = np.maximum(self._newest, blocks.max(axis=1, initial=-1))
        first = self._newest - pinned_blocks(self._share, quota)
        return np.where(blocks > first[:, None], _ABOVE_ALL + blocks.astype(np.int64), values)


def pinned_blocks(share: float, quota: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many of ``quota`` [S] blocks are the newest."""
    return np.floor(share * np.maximum(quota, 0)).astype(np.int64)


def newest_first(ranked: npt.NDArray[np.integer], newest: int, count: int, oldest: int) -> npt.NDArray[np.int32]:
    """``ranked`` blocks with the ``count`` newest ones before them: ``newest`` and those below, down to ``oldest``."""
    pinned = np.arange(newest, max(newest - count, oldest - 1), -1, dtype=np.int32)
    rest = np.asarray(ranked, np.int32)
    return np.concatenate([pinned, rest[(rest <= newest - count) | (rest < 0)]])
