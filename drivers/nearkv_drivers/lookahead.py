"""The books of lookahead eviction in native code; ``nearkv.policy.lookahead`` says what they are for.

S = streams of a layer, n = blocks that the books have room for. ``selected`` and ``seen`` are int64 [S, n], the steps
of a block's last selection and of its last report; ``means`` float32 [2, S, n] a fast and a slow running mean;
``powers`` float32 [2, ages] what is left of each after so many steps (the last one holds for all that follow).
All arrays are C-contiguous. Raises ContractError where they do not fit each other, or a block is beyond them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv_drivers.extension import kernel as _kernel


def report(
    selected: npt.NDArray[np.int64],
    seen: npt.NDArray[np.int64],
    means: npt.NDArray[np.float32],
    powers: npt.NDArray[np.float32],
    blocks: npt.NDArray[np.int32],
    priority: npt.NDArray[np.uint32],
    step: int,
    *,
    chosen: bool,
) -> None:
    """Move the means of ``blocks`` int32 [S, m] (-1: none) on to ``step`` by the root of their ``priority`` uint32.

    A block counts once in a step, and what was not reported between counts as 0. ``chosen``: they were selected.
    """
    _kernel.lookahead_report(
        selected, seen, means, powers, np.ascontiguousarray(blocks), np.ascontiguousarray(priority), step, chosen
    )


def values(
    selected: npt.NDArray[np.int64],
    seen: npt.NDArray[np.int64],
    means: npt.NDArray[np.float32],
    powers: npt.NDArray[np.float32],
    blocks: npt.NDArray[np.int32],
    step: int,
    window: int,
) -> npt.NDArray[np.int64]:
    """Retention values int64 [S, m] of ``blocks``: bit 62 where selected in the last ``window`` steps, then the sum
    of the means at ``step`` in units of 2^-20; -1 for none."""
    return _kernel.lookahead_values(selected, seen, means, powers, np.ascontiguousarray(blocks), step, window)
