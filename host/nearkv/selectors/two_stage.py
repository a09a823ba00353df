"""Two stages: a summary in DRAM proposes candidate blocks, the drive reads and scores only those.

The share of blocks that are candidates adapts to a stated loss: now and then a step scores everything, which tells
how much of the one-stage selection's mass the two-stage selection holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearkv.selectors.base import FloatArray


def candidates(
    share: FloatArray, count: npt.NDArray[np.int64], fraction: float, sink_blocks: int, recent_blocks: int
) -> npt.NDArray[np.bool_]:
    """Which blocks the drive shall score: bool [N, blocks].

    ``share`` [N, blocks] is the summary's estimate of each block's share (mean over a group); row i has ``count[i]``
    blocks. A ``fraction`` of the blocks that are not always in is taken, at least one; ties go to the lower index.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"the share of candidates must lie in (0, 1], not {fraction}")
    index = np.arange(share.shape[1])
    eligible = (index >= sink_blocks) & (index < count[:, None] - recent_blocks)
    wanted = np.ceil(fraction * eligible.sum(axis=1)).astype(np.int64)
    order = np.argsort(np.where(eligible, -share, np.float32(np.inf)), axis=1, kind="stable")
    proposed = np.zeros(share.shape, bool)
    np.put_along_axis(proposed, order, index < wanted[:, None], axis=1)
    return proposed & eligible


def runs(blocks: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Candidates of one stream (bool [blocks]) as (first block, blocks) runs, in order: the request's descriptors."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], blocks, [False]]).astype(np.int8)))
    return [(int(start), int(end - start)) for start, end in zip(edges[::2], edges[1::2], strict=True)]


@dataclass
class CandidateShare:
    """The share of candidates of one stream or layer, steered so that the lost mass stays below ``loss``.

    Every ``audit_every`` steps :meth:`audit_due` asks for a step that scores all blocks; :meth:`audited` learns from
    it. The share grows at once when a loss is too high, and shrinks slowly while it is below half of what is allowed.
    """

    loss: float = 0.01
    fraction: float = 0.25
    smallest: float = 1 / 16
    audit_every: int = 32
    _step: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.loss < 1 or not 0 < self.smallest <= self.fraction <= 1 or self.audit_every < 1:
            raise ValueError("loss and the candidate shares must lie in (0, 1), smallest first; audits 1 step apart")

    def audit_due(self) -> bool:
        """Whether this step shall score everything; call once per step. The first step is an audit."""
        due = self._step % self.audit_every == 0
        self._step += 1
        return due

    def audited(self, one_stage_mass: float, two_stage_mass: float) -> None:
        """Learn the mass of both selections at the same step."""
        lost = 1 - two_stage_mass / one_stage_mass
        if lost > self.loss:
            self.fraction = min(1.0, self.fraction * (1.5 if lost > 2 * self.loss else 1.2))
        elif lost < self.loss / 2:
            self.fraction = max(self.smallest, self.fraction * 0.93)
