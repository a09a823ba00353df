"""Two stages: a summary in DRAM (``summaries.py``) proposes candidate blocks, the drive reads and scores only those.

The share of blocks that are candidates adapts to a stated loss: now and then a step scores everything, which tells
how much of the one-stage selection's mass the two-stage selection holds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LEAST_WEIGHT = 1 / 8
"""Least weight of an audit in the running mean of losses: about the last fifteen count, all of them at first."""

AIM = 0.7
"""Part of the stated loss that the mean is steered to: audits are few, and what lies between them is not seen."""


class CandidateShare:
    """The shares of candidates of ``streams`` streams, each steered so that it loses less than ``loss`` on average.

    Every ``audit_every`` steps, and more often before the first of those, :meth:`audit_due` asks for a step that scores
    all blocks; :meth:`audited` learns from it. A share grows when the running mean of its losses is too high, and
    shrinks slowly while that is below half of what is aimed at: a loss that is rare but large counts as much as it
    costs. ``phase`` shifts the audits after the first ones, so that not all layers have theirs in the same step.
    """

    def __init__(
        self,
        loss: float = 0.01,
        fraction: float = 0.25,
        smallest: float = 1 / 16,
        audit_every: int = 32,
        *,
        streams: int = 1,
        phase: int = 0,
    ) -> None:
        if not 0 < loss < 1 or not 0 < smallest <= fraction <= 1 or audit_every < 1:
            raise ValueError("loss and the candidate shares must lie in (0, 1), smallest first; audits 1 step apart")
        self.loss, self.smallest, self.audit_every = loss, smallest, audit_every
        self.fraction = np.full(streams, fraction)
        self._phase, self._step = phase, 0
        self._lost, self._audits = np.zeros(streams), np.zeros(streams, np.int64)

    def audit_due(self) -> bool:
        """Whether this step shall score everything; call once per step. Steps 0, 1, 2, 4, 8, … are at the beginning."""
        step, self._step = self._step, self._step + 1
        early = step < self.audit_every and step & (step - 1) == 0
        return early or (step + self._phase) % self.audit_every == 0

    def audited(self, one_stage_mass: npt.ArrayLike, two_stage_mass: npt.ArrayLike) -> None:
        """Learn the mass [streams] of both selections at the same step; NaN for a stream that had none."""
        lost = 1 - np.asarray(two_stage_mass, np.float64) / np.asarray(one_stage_mass, np.float64)
        heard = ~np.isnan(lost)
        self._audits += heard
        weight = np.maximum(1 / np.maximum(self._audits, 1), LEAST_WEIGHT)
        mean = self._lost + np.where(heard, weight * (lost - self._lost), 0)
        aim = AIM * self.loss
        steps = [mean > 2 * aim, mean > aim, mean < aim / 2]
        factor = np.where(heard, np.select(steps, [1.5, 1.2, 0.93], 1.0), 1.0)
        before, self.fraction = self.fraction, np.clip(self.fraction * factor, self.smallest, 1.0)
        self._lost = mean * before / self.fraction  # what a larger share would have lost
