"""The hot pool's admission in native code: which fetched KV blocks take which slots, their books and their bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv_drivers import _kernel


def admit(
    resident: npt.NDArray[np.int32],
    where: npt.NDArray[np.int64],
    selected: npt.NDArray[np.int32],
    slot: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    pinned: int,
    fetched: npt.NDArray[np.uint8],
    memory: npt.NDArray[np.uint8],
) -> int:
    """Keep per stream the blocks of highest value among residents and missed ones; returns how many moved in.

    S = streams, n = slots per stream, k = selected blocks; all arrays C-contiguous, -1 for no block or slot.
    ``resident`` int32 [S, n] (block of each slot) and ``where`` int64 [S, blocks] (slot of each block) are updated;
    ``selected`` int32 [S, k] and ``slot`` int64 [S, k] (-1 where missed) are a step's selection; ``values`` int64
    [S, n + k] those of residents and selected blocks (of those not missed, meaningless). Among equals the earlier one
    stays; blocks below ``pinned`` always do. The i-th newcomer takes the i-th slot that is given up: its bytes are
    copied from ``fetched`` uint8 [S, k or more, B] to ``memory`` uint8 [S, n, B]. Raises ContractError for shapes
    that do not fit each other and for blocks beyond ``where``.
    """
    return _kernel.admit(resident, where, selected, slot, values, pinned, fetched, memory)
