"""The hot pool in native code: where selected KV blocks are, and which fetched ones take which slots.

S = streams, n = slots per stream, k = selected blocks; all arrays C-contiguous, -1 for no block or slot.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv_drivers.extension import kernel as _kernel


def look_up(
    where: npt.NDArray[np.int64], selected: npt.NDArray[np.int32], pinned: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Slots int64 [S, k] of ``selected`` int32 [S, k] by ``where`` int64 [S, blocks], stream and position of those that
    have none, int64 [m] each, and how many of the others are blocks from ``pinned`` on.

    Raises ContractError for shapes that do not fit each other and for blocks beyond ``where``.
    """
    return _kernel.look_up(where, selected, pinned)


def locate(
    selected: npt.NDArray[np.int32],
    slot: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.uint64],
    landing: npt.NDArray[np.uint64],
) -> npt.NDArray[np.uint64]:
    """Host address of every block of ``selected`` int32 [S, k], uint64 [S, k], 0 for none.

    It is that of its ``slot`` int64 [S, k] in ``addresses`` uint64 [S, n], or without one its place in ``landing``
    uint64 [S, k or more]. Raises ContractError for shapes that do not fit each other and slots beyond the pool.
    """
    return _kernel.locate(selected, slot, addresses, landing)


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

    Returns how many moved in and how many residents left. ``resident`` int32 [S, n] (block of each slot) and ``where``
    int64 [S, blocks] (slot of each block) are updated; ``addresses`` uint64 [S, n] is where each slot lies in host
    memory, and ``quota`` int64 [S] how many of a stream's slots, the first ones, may be used from now on. ``selected``
    int32 [S, k] and ``slot`` int64 [S, k] (-1 where missed) are a step's selection; ``values`` int64 [S, n + k] those
    of residents and selected blocks (of those not missed, meaningless). Among equals the lower block stays; blocks
    below ``pinned`` always do. Residents beyond the quota move to free slots first; then the i-th newcomer takes the
    i-th free slot, its bytes copied from ``fetched`` uint8 [S, k or more, B]. Raises ContractError for shapes that do
    not fit each other, for blocks beyond ``where`` and for usable slots without an address.
    """
    return _kernel.admit(resident, where, addresses, quota, selected, slot, values, pinned, fetched)
