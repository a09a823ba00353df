"""A first stage in native code: products of queries and summaries, shares of the mass, and the choice of candidates.

R = streams asked for, S = streams, G = query heads per stream. Everything releases the GIL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearkv_drivers.extension import kernel as _kernel
from nearkv_drivers.wire import ContractError


def products(
    rows: npt.NDArray[Any],
    streams: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    features: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    """The product of the first ``counts`` [R] rows of ``streams`` [R] with every head's features: float32 [R, G, n].

    ``rows`` is uint8, float16 or float32 [S, rows, F], ``features`` [R, G, F]; 0 behind a stream's count. Sums run in
    single precision. Raises ContractError for shapes that do not fit each other.
    """
    if rows.dtype == np.float16:
        return _kernel.summary_products(rows.view(np.uint16), streams, counts, features)
    return _kernel.summary_products(rows, streams, counts, features)


def shares(
    log_mass: npt.NDArray[np.float32], counts: npt.NDArray[np.int64], outside: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Shares of the attention mass of the first ``counts`` [R] blocks with log-mass float32 [R, G, n]: float32 [R, n].

    Shares are of a head's softmax over the blocks and ``outside`` [R, G], the log-mass of other tokens (all in natural
    units), averaged over the heads; 0 behind a stream's count. Raises ContractError for shapes that do not fit each
    other.
    """
    return _kernel.summary_shares(log_mass, counts, outside)


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
