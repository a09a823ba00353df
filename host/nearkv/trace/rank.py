"""A step's ranking, as a trace holds it, from the share of the attention mass that every block has."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv_drivers.wire import PRIORITY_UNIT


def rank(
    share: npt.NDArray[np.float32],
    count: npt.NDArray[np.int64],
    sink_blocks: int,
    recent_blocks: int,
    width: int,
    heads: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
    """Rank blocks by ``share`` [N, blocks] (mean over a group's ``heads``); row i has ``count[i]`` blocks.

    Returns block indices int32 and priorities uint32 (summed over the heads), both [N, width], -1 and 0 padded: first
    the sink and recent blocks by position, then the others, best first, ties to the lower index. Every row must have
    more than sink_blocks + recent_blocks blocks.
    """
    index = np.arange(share.shape[1])
    last = count[:, None]
    always = (index < sink_blocks) | ((index >= last - recent_blocks) & (index < last))
    key = np.where(index < last, -share, np.float32(np.inf))
    key = np.where(always, np.float32(-np.inf), key)
    order = np.argsort(key, axis=1, kind="stable")[:, :width].astype(np.int32)
    found = np.take_along_axis(share, order, axis=1).astype(np.float64) * heads * PRIORITY_UNIT
    exists = order < last
    ranked = np.full((len(share), width), -1, np.int32)
    priority = np.zeros((len(share), width), np.uint32)
    columns = order.shape[1]
    ranked[:, :columns] = np.where(exists, order, -1)
    priority[:, :columns] = np.where(exists, np.rint(found), 0)
    return ranked, priority
