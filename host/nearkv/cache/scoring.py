"""Ask which blocks matter: queries to a score request per stream, results to the best blocks of each.

Three ways, which combine: the drive scores every block; the host scores a part beside it (``balance.py``); a first
stage proposes which blocks are scored at all (``candidates.py``). Who scores a block does not change its score: both
run the contract, the totals are folded in order of position, and the best are chosen by the kernel's own operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearkv.cache.balance import Balance, Sides
from nearkv.cache.candidates import FirstStage, Proposal
from nearkv.cache.host_scoring import ScoreCopies
from nearkv.cache.runs import BlockRuns
from nearkv.cache.store import LayerStore
from nearkv_drivers import native
from nearkv_drivers.device import Device, Mode, ScoreRequest, ScoreResult
from nearkv_drivers.kernel import Command
from nearkv_drivers.native_kernel import reduce_native
from nearkv_drivers.wire import EMPTY


@dataclass(frozen=True)
class Question:
    """One layer's step. ``queries`` is float32 [S, G, d]; of the first ``sealed[s]`` blocks of stream s the best
    ``most[s]`` are asked for.

    ``tail_mass`` is int32 [S, G], the log-mass of the newest tokens (T0), so that priorities are shares of the whole
    attention. Streams whose part of the budget, ``wanted[s]`` blocks, holds all they have are not scored.
    """

    queries: npt.NDArray[np.float32]
    sealed: npt.NDArray[np.int64]
    wanted: npt.NDArray[np.int64]
    most: npt.NDArray[np.int64]
    scale: float
    tail_mass: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Beside:
    """What the host needs to score beside the drive: its ``copies`` of the layer's score blocks, and the balance."""

    copies: ScoreCopies
    balance: Balance


@dataclass(frozen=True)
class _Stream:
    """One stream of a step: the ``blocks`` to score (None: the first ``count``), and its encoded query."""

    number: int
    count: int
    blocks: npt.NDArray[np.int64] | None
    k: int
    q: npt.NDArray[np.int8]
    c: npt.NDArray[np.uint16]
    r: npt.NDArray[np.uint8]
    b: npt.NDArray[np.int32]
    tail_mass: npt.NDArray[np.int32]


class LayerScorer:
    """Scores the streams of one layer, whose blocks lie in ``store`` on ``device``."""

    def __init__(
        self, device: Device, store: LayerStore, beside: Beside | None = None, first_stage: FirstStage | None = None
    ) -> None:
        self._device, self._store = device, store
        self.beside, self.first_stage = beside, first_stage
        if beside is not None:
            store.keepers.append(beside.copies)
        if first_stage is not None:
            store.keepers.append(first_stage)

    def score(self, ask: Question) -> list[ScoreResult | None]:
        """The best blocks of every stream, positions being block numbers; None for a stream that is not scored."""
        results: list[ScoreResult | None] = [None] * len(self._store.streams)
        asked = np.flatnonzero(ask.wanted < ask.sealed)
        if not len(asked):
            return results
        proposal = None
        if self.first_stage is not None:
            proposal = self.first_stage.propose(
                asked, ask.queries[asked], ask.sealed[asked], ask.tail_mass[asked], ask.scale
            )
        streams = self._streams(ask, asked, proposal)
        found = self._on_drive(streams) if self.beside is None else self._on_both(streams, self.beside)
        if self.first_stage is not None and proposal is not None:
            found = self._by_block(ask, asked, proposal, found, self.first_stage)
        for stream, result in zip(asked.tolist(), found, strict=True):
            results[stream] = result
        return results

    def shares(
        self,
        queries: npt.NDArray[np.float32],
        sealed: npt.NDArray[np.int64],
        scale: float,
        tail_mass: npt.NDArray[np.int32],
    ) -> npt.NDArray[np.float32]:
        """Share of the attention mass of every block under each of any number of queries, scored by the drive.

        ``queries`` is float32 [S, n, d], ``sealed`` and ``tail_mass`` [S, n] are a Question's. Returns float32
        [S, n, blocks], zero behind a stream's ``sealed`` blocks.
        """
        shares = np.zeros((*queries.shape[:2], int(sealed.max(initial=0))), np.float32)
        scored = np.flatnonzero(sealed)
        if not len(scored):
            return shares
        width, none = self._device.capabilities.max_group, np.zeros_like(sealed)
        for first in range(0, queries.shape[1], width):
            part = slice(first, first + width)
            ask = Question(queries[:, part], sealed, none, none, scale, tail_mass[:, part])
            streams = self._streams(ask, scored, None)
            results = self._device.submit([self._request(stream, 0, Mode.MASS) for stream in streams]).wait()
            for stream, result in zip(streams, results, strict=True):
                assert result.log_mass is not None
                shares[stream.number, part, : stream.count] = _share_of(result.log_mass, result.total[:, None])
        return shares

    def _streams(self, ask: Question, asked: npt.NDArray[np.int64], proposal: Proposal | None) -> list[_Stream]:
        """What to score: queries quantised against every segment, and the candidates if there are any."""
        centres, scales = self._store.scaling(asked)
        queries = ask.queries if len(asked) == len(ask.queries) else ask.queries[asked]
        q, c, r, b = native.encode_queries(queries, centres, scales, ask.scale)
        streams = []
        for at, number in enumerate(asked.tolist()):
            count, k, blocks = int(ask.sealed[number]), int(ask.most[number]), None
            if proposal is not None and proposal.audit:
                k = min(count, self._device.capabilities.max_top_k)
            elif proposal is not None:
                blocks = proposal.blocks[at]
                count = len(blocks)
            streams.append(_Stream(number, count, blocks, k, q[at], c[at], r[at], b[at], ask.tail_mass[number]))
        return streams

    def _runs(self, stream: _Stream, first: int, last: int) -> BlockRuns:
        """The runs of the blocks at positions ``first`` .. ``last`` of what is scored."""
        index = self._store.streams[stream.number]
        return index.span(first, last) if stream.blocks is None else index.scattered(stream.blocks[first:last])

    def _request(self, stream: _Stream, first: int, mode: Mode) -> ScoreRequest:
        runs = self._runs(stream, first, stream.count)
        return ScoreRequest(
            runs.table(stream.c, stream.r, stream.b), stream.q, self._store.geometry.bits, mode, stream.k,
            initial_total=stream.tail_mass,
        )  # fmt: skip

    def _on_drive(self, streams: list[_Stream]) -> list[ScoreResult]:
        return self._device.submit([self._request(stream, 0, Mode.TOPK) for stream in streams]).wait()

    def _on_both(self, streams: list[_Stream], beside: Beside) -> list[ScoreResult]:
        """The first positions of every stream on the host, the others on the drive."""
        size, balance, copies = self._store.geometry.score_block_bytes, beside.balance, beside.copies
        balance.begin(self._store.layer)
        held = [_held(stream, int(copies.held[stream.number])) for stream in streams]
        total = sum(stream.count for stream in streams)
        split = balance.split(total * size, sum(held) * size, len(streams) * size)
        if split is None:
            return self._on_drive(streams)
        share = split.host_bytes / (total * size)
        parts = [_part(stream.count, share, most) for stream, most in zip(streams, held, strict=True)]
        commands = [self._command(stream, part, copies) for stream, part in zip(streams, parts, strict=True)]
        requests = [self._request(stream, part, Mode.MASS) for stream, part in zip(streams, parts, strict=True)]
        drive, host, drive_seconds, host_seconds = balance.run(self._device, requests, copies, commands)
        balance.observe(Sides(sum(parts) * size, host_seconds, (total - sum(parts)) * size, drive_seconds))
        found = [_merge(*each) for each in zip(streams, parts, host, drive, strict=True)]
        for stream, result in zip(streams, found, strict=True):
            everything = int(self._store.sealed[stream.number])
            balance.selected(self._store.layer, stream.number, _blocks(stream, result.positions), everything)
        return found

    def _command(self, stream: _Stream, part: int, copies: ScoreCopies) -> Command:
        runs = self._runs(stream, 0, part)
        scales = stream.c[runs.segments], stream.r[runs.segments], stream.b[runs.segments]
        return copies.command(stream.number, runs.first, runs.counts, scales, stream.q)

    def _by_block(
        self,
        ask: Question,
        asked: npt.NDArray[np.int64],
        proposal: Proposal,
        found: list[ScoreResult],
        first_stage: FirstStage,
    ) -> list[ScoreResult]:
        """Results whose positions count blocks of the stream, ``most`` of each; an audit is learned from."""
        first_stage.scored(proposal, asked, found, ask.wanted[asked], ask.tail_mass[asked])
        best = []
        for stream, blocks, result in zip(asked.tolist(), proposal.blocks, found, strict=True):
            most = int(ask.most[stream])
            positions = blocks[result.positions[:most]].astype(np.uint32)
            best.append(ScoreResult(result.total, result.bad, positions, result.priorities[:most]))
        return best


def _share_of(log_mass: npt.NDArray[np.int32], total: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    """2 ^ (log-mass - total), with the contract's linear fraction."""
    below = np.minimum(log_mass.astype(np.int64) - total, 0)
    share = np.ldexp(1 + (below & 255) / 256, np.maximum(below >> 8, -1000).astype(np.int32))
    return np.where(log_mass == EMPTY, 0, share).astype(np.float32)


def _blocks(stream: _Stream, positions: npt.NDArray[np.uint32]) -> npt.NDArray[np.integer[Any]]:
    """Block numbers of ``positions`` of what was scored."""
    return positions if stream.blocks is None else stream.blocks[positions]


def _held(stream: _Stream, copies: int) -> int:
    """How many of the first positions of ``stream`` have one of its first ``copies`` blocks."""
    return min(stream.count, copies) if stream.blocks is None else int(np.searchsorted(stream.blocks, copies))


def _part(count: int, share: float, most: int) -> int:
    """Positions that the host scores: ``share`` of ``count``, at most ``most``; both sides get a block if they can,
    because a side that scores nothing has no rate."""
    return min(max(round(count * share), 1), max(count - 1, 0), most)


def _merge(stream: _Stream, part: int, host: ScoreResult, drive: ScoreResult) -> ScoreResult:
    """What the drive would have returned for the whole stream: masses in order, folded from T0, the best chosen."""
    assert host.log_mass is not None
    assert drive.log_mass is not None
    log_mass = np.concatenate([host.log_mass, drive.log_mass], axis=1)
    total, positions, priorities = reduce_native(log_mass, stream.tail_mass, stream.k)
    bad = np.concatenate([host.bad, drive.bad + np.uint32(part)])
    return ScoreResult(total, bad, positions, priorities)
