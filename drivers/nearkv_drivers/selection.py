"""The selection in native code: the best blocks of the streams of one sequence, whose budget they share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearkv_drivers.extension import kernel as _kernel

_Ranks = npt.NDArray[np.uint32] | None


def share_budget(
    positions: Sequence[_Ranks],
    priorities: Sequence[_Ranks],
    candidates: npt.NDArray[np.int64],
    room: int,
    sinks: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
    """The blocks that H streams attend, sinks first: int32 [H, k] -1 padded, and their priorities uint32 [H, k].

    ``positions`` and ``priorities`` are each stream's ranking, uint32 [n], best first; None for a stream that attends
    all its ``candidates`` [H] blocks. Beside the first ``sinks`` blocks of every stream the ``room`` best of all
    streams are taken, a stream's in order of its ranking; of equals, the first stream's. Unranked blocks come before
    ranked ones, with the highest priority there is; sinks have priority 0. Raises ContractError for lists and arrays
    that do not fit each other.
    """
    return _kernel.share_budget(list(positions), list(priorities), candidates, room, sinks)
