"""The first stage of one layer: summaries in DRAM propose which blocks are scored, audits steer how many."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearkv.cache.buffers import token_view
from nearkv.cache.geometry import Geometry
from nearkv.selectors.summaries import SummaryTable
from nearkv.selectors.two_stage import CandidateShare
from nearkv_drivers import summary
from nearkv_drivers.device import ScoreResult
from nearkv_drivers.wire import FRACTION_BITS, PRIORITY_UNIT

LOG2_UNIT = math.log(2) / (1 << FRACTION_BITS)
"""Natural units per unit of a log-mass."""


@dataclass
class FirstStageStats:
    """What the first stage of all layers did. Masses are in units of one query head's whole attention."""

    audits: int = 0
    """Audits of a stream: steps in which it was scored whole."""
    proposed_blocks: int = 0
    """Blocks that were scored, audits included."""
    all_blocks: int = 0
    """Blocks that one stage would have scored."""
    summary_bytes_read: int = 0
    seconds: float = 0.0
    """Host time of proposing."""
    one_stage_mass: float = 0.0
    """Mass that the one-stage selections of the audits held, the blocks that are always read included."""
    two_stage_mass: float = 0.0
    """Mass that the two-stage selections of the same steps would have held."""

    @property
    def kept_mass(self) -> float:
        """Share of the one-stage selected mass that two stages keep, measured by the audits; 1 before the first."""
        return self.two_stage_mass / self.one_stage_mass if self.one_stage_mass else 1.0

    def report(self) -> dict[str, float]:
        """The figures that people ask for."""
        return {
            **vars(self),
            "scored_share": self.proposed_blocks / max(self.all_blocks, 1),
            "kept_mass": self.kept_mass,
        }


@dataclass(frozen=True)
class Proposal:
    """Blocks to score of each stream asked for: ``blocks`` int64 arrays, ascending; ``audit``: all are scored, and
    ``proposed`` (bool [R, n]) says which would have been. One stage would score ``all_blocks``."""

    blocks: list[npt.NDArray[np.int64]]
    proposed: npt.NDArray[np.bool_]
    audit: bool
    all_blocks: int
    summary_bytes: int
    seconds: float


class FirstStage:
    """Keeps a summary of every sealed block of one layer and proposes candidates for each step.

    Sink blocks and blocks without a summary are always candidates. It is a keeper of the layer's store.
    """

    def __init__(
        self,
        kind: type[SummaryTable],
        geometry: Geometry,
        stats: FirstStageStats,
        *,
        most_blocks: int | None,
        expected_blocks: int = 0,
        loss: float,
        sink_blocks: int,
        layer: int,
    ) -> None:
        self._geometry, self._stats, self._sinks = geometry, stats, sink_blocks
        self._table = kind(geometry.streams, geometry.head_dim, most_blocks, expected_blocks)
        self.share = CandidateShare(loss, streams=geometry.streams, phase=layer)

    @property
    def nbytes(self) -> int:
        """DRAM held by summaries."""
        return self._table.nbytes

    def sealed(
        self, stream: int, first: int, kv_blocks: npt.NDArray[np.uint8], score_blocks: npt.NDArray[np.uint8]
    ) -> None:
        """See Keeper."""
        g = self._geometry
        one = Geometry(1, 1, g.head_dim, g.dtype, g.bits)
        self._table.add(stream, first, token_view(kv_blocks[None], one)[0, 0, :, :, 0].float().numpy())

    def propose(
        self,
        streams: npt.NDArray[np.int64],
        queries: npt.NDArray[np.float32],
        counts: npt.NDArray[np.int64],
        tail_mass: npt.NDArray[np.int32],
        scale: float,
    ) -> Proposal:
        """Candidates among the first ``counts`` [R] blocks of ``streams`` [R].

        ``queries`` is float32 [R, G, d] and ``tail_mass`` int32 [R, G] the log-mass of the newest tokens, which are
        read anyway: their mass makes a block's estimate a share of the whole.
        """
        begin = time.perf_counter()
        summarised = np.minimum(self._table.count[streams], counts)
        outside = tail_mass.astype(np.float32) * np.float32(LOG2_UNIT)
        share, read = self._table.shares(streams, summarised, queries, scale, outside)
        index, known = np.arange(int(counts.max())), share.shape[1]
        proposed = index >= summarised[:, None]
        proposed[:, :known] |= summary.choose(share, summarised, self.share.fraction[streams], self._sinks)
        proposed &= index < counts[:, None]
        audit = self.share.audit_due()
        chosen = [
            np.arange(n) if audit else np.flatnonzero(row) for n, row in zip(counts.tolist(), proposed, strict=True)
        ]
        seconds = time.perf_counter() - begin
        return Proposal(chosen, proposed, audit, int(counts.sum()), read, seconds)

    def scored(
        self,
        proposal: Proposal,
        streams: npt.NDArray[np.int64],
        results: list[ScoreResult],
        wanted: npt.NDArray[np.int64],
        tail_mass: npt.NDArray[np.int32],
    ) -> None:
        """Count what was scored of ``streams`` [R], and learn from an audit's ``results``.

        An audit's results rank all blocks; each stream's part of the budget, ``wanted`` [R] blocks with its sinks, is
        what either selection takes. ``tail_mass`` is int32 [R, G].
        """
        stats = self._stats
        stats.proposed_blocks += sum(map(len, proposal.blocks))
        stats.all_blocks += proposal.all_blocks
        stats.summary_bytes_read += proposal.summary_bytes
        stats.seconds += proposal.seconds
        if not proposal.audit:
            return
        one, two = (np.full(self._geometry.streams, np.nan) for _ in range(2))
        for row, (stream, result) in enumerate(zip(streams.tolist(), results, strict=True)):
            newest = np.exp2((tail_mass[row].astype(np.float64) - result.total) / (1 << FRACTION_BITS)).sum()
            sink = result.positions < self._sinks
            always = newest + _mass(result.priorities[sink])
            rest, room = result.priorities[~sink], int(wanted[row]) - self._sinks
            one[stream] = always + _mass(rest[:room])
            two[stream] = always + _mass(rest[proposal.proposed[row, result.positions[~sink]]][:room])
            stats.one_stage_mass += one[stream]
            stats.two_stage_mass += two[stream]
        stats.audits += len(results)
        self.share.audited(one, two)


def _mass(priorities: npt.NDArray[np.uint32]) -> float:
    """Attention mass of blocks with these priorities."""
    return float(priorities.sum(dtype=np.uint64)) / PRIORITY_UNIT
