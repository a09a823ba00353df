"""In which order a prefill's blocks go to the drive: those that the prompt's last queries select together, together.

Blocks are written once, when they are sealed, and a layer's keys are in memory then. So what the queries at hand would
select of them is computed on the host, exactly, at 1 % to 3 % of a prefill's cost; of a prompt in chunks, every chunk's
blocks are ordered by the last queries up to its end (KVDrive's semantic continuity).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from nearkv.cache.observation import prompt_selections
from nearkv.tiers.layout import NEIGHBOURS, co_selection, pack_together


def drive_order(
    queries: torch.Tensor, keys: torch.Tensor, tokens: int, sealed: range, *, scale: float, wanted: int, sinks: int
) -> npt.NDArray[np.int64]:
    """Blocks ``sealed`` of one sequence's streams in the order in which they should lie on the drive.

    ``queries`` [kv_heads, group, P, head_dim] are those of the last P of ``tokens`` tokens; ``keys`` [kv_heads, blocks,
    32, head_dim] are in host memory. ``wanted`` blocks per stream is what a decode step selects, ``sinks`` included.
    Returns int64 [kv_heads, len(sealed)], each row a permutation of 0 .. len(sealed) - 1.
    """
    shares = np.stack([_shares(asked, stream, tokens, scale) for asked, stream in zip(queries, keys, strict=True)])
    candidates = np.full(len(keys), sealed.stop)
    chosen = prompt_selections(shares, candidates, wanted=wanted, sinks=sinks, kv_heads=len(keys))
    among = np.where(chosen >= sealed.start, chosen - sealed.start, np.int32(-1)).swapaxes(0, 1)
    favour = NEIGHBOURS * queries.shape[2]
    places = [pack_together(co_selection(stream, len(sealed)), favour) for stream in among]
    return np.argsort(np.stack(places), axis=1)


def _shares(queries: torch.Tensor, keys: torch.Tensor, tokens: int, scale: float) -> npt.NDArray[np.float32]:
    """Share of the attention mass per block of ``keys`` [blocks, 32, d], mean over the group: float32 [P, blocks].

    ``queries`` [group, P, d] are those of the last of ``tokens`` tokens; none sees what comes after it.
    """
    scores = torch.matmul(queries.float().cpu(), keys.float().flatten(0, 1).T) * scale
    position = torch.arange(tokens - queries.shape[1], tokens)
    scores.masked_fill_(torch.arange(scores.shape[2]) > position[:, None], -torch.inf)
    mass = scores.unflatten(2, keys.shape[:2]).logsumexp(3)
    share: npt.NDArray[np.float32] = mass.softmax(2).mean(0).numpy()
    return share
