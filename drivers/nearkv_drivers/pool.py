"""The hot pool's admission in native code: which fetched KV blocks take which slots, their books and their bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv_drivers.extension import kernel as _kernel


def admit(
    resident: npt.NDArray[np.int32],
    where: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.uint64],
    quota: npt.NDArray[np.int64],
    selected: npt.NDArray[np.int32],
    slot: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    pinned: int,
    fetched: npt.NDArray[np.uint8],
) -> tuple[int, int]:
    """Keep per stream the blocks of highest value among residents and missed ones.

    Returns how many moved in and how many residents left. S = streams, n = slots per stream, k = selected blocks; all
    arrays C-contiguous, -1 for no block or slot. ``resident`` int32 [S, n] (block of each slot) and ``where`` int64
    [S, blocks] (slot of each block) are updated; ``addresses`` uint64 [S, n] is where each slot lies in host memory,
    and ``quota`` int64 [S] how many of a stream's slots, the first ones, may be used from now on. ``selected`` int32
    [S, k] and ``slot`` int64 [S, k] (-1 where missed) are a step's selection; ``values`` int64 [S, n + k] those of
    residents and selected blocks (of those not missed, meaningless). Among equals the lower block stays; blocks below
    ``pinned`` always do. Residents beyond the quota move to free slots first; then the i-th newcomer takes the i-th
    free slot, its bytes copied from ``fetched`` uint8 [S, k or more, B]. Raises ContractError for shapes that do not
    fit each other, for blocks beyond ``where`` and for usable slots without an address.
    """
    return _kernel.admit(resident, where, addresses, quota, selected, slot, values, pinned, fetched)
