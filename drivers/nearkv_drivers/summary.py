"""A first stage in native code: estimates from summaries of one byte per value, and the choice of candidates.

R = streams asked for, S = streams, G = query heads per stream. Everything releases the GIL.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv_drivers.extension import kernel as _kernel
from nearkv_drivers.wire import ContractError


def shares(
    rows: npt.NDArray[np.uint8],
    streams: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    features: npt.NDArray[np.float32],
    outside: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    """Estimated share of the attention mass of the first ``counts`` [R] blocks of ``streams`` [R]: float32 [R, n].

    ``rows`` is uint8 [S, blocks, F], F a multiple of 16; a head estimates a block's log-mass (natural units, up to a
    constant) as the product of its row and ``features`` [R, G, F]. Shares are of a head's softmax over the blocks and
    ``outside`` [R, G], the log-mass of other tokens up to the same constant, averaged over the heads; 0 behind a
    stream's count. Raises ContractError for shapes that do not fit each other.
    """
    return _kernel.summary_shares(rows, streams, counts, features, outside)


def choose(
    shares: npt.NDArray[np.float32],
    counts: npt.NDArray[np.int64],
    fractions: npt.NDArray[np.float64],
    sinks: int,
) -> npt.NDArray[np.bool_]:
    """Candidates among the first ``counts`` [R] blocks by ``shares`` float32 [R, n]: bool [R, n].

    The first ``sinks`` blocks, and of the others a share of ``fractions`` [R], rounded up; ties go to the lower index.
    Raises ContractError for shapes that do not fit each other and fractions outside (0, 1].
    """
    if not ((fractions > 0) & (fractions <= 1)).all():
        raise ContractError(f"the share of candidates must lie in (0, 1], not {fractions}")
    return _kernel.choose_candidates(shares, counts, fractions, sinks).view(np.bool_)
