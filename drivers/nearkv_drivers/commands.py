"""From a score request to what the kernel reads: runs cut at slab borders, then descriptors in device DRAM."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import Capabilities, DeviceError, Mode, ScoreRequest, ScoreResult
from nearkv_drivers.frames import page_mask
from nearkv_drivers.kernel import Command
from nearkv_drivers.runs import Places, RunTable, ScatteredRuns, changes, run_table, stretches
from nearkv_drivers.wire import EMPTY, block_bytes

LAYOUTS = 1 << 14
"""Layouts remembered. A stream's runs are the same from step to step until it seals a block; a model of a hundred
layers with eight streams each fills a twentieth of it."""


class Piece(NamedTuple):
    """Blocks of one run that begin in one slab: ``at`` is the first one's byte in the slab's frame."""

    slab: int
    at: int
    blocks: int
    pages: int
    run: int
    position: int


@dataclass(frozen=True)
class Layout:
    """Where the blocks of a request lie. ``blocks`` uint32 [pieces]; ``rows`` [pieces] the run of each piece, None
    where every run is one piece. ``total`` blocks, the last of which ends at drive address ``end``.

    ``spans`` are (slab, mask of its pages) of every slab that holds a part; ``which`` [pieces] says which of them a
    piece lies in, ``at`` int64 [pieces] at which byte of its frame.
    """

    pieces: tuple[Piece, ...]
    spans: tuple[tuple[int, int], ...]
    which: npt.NDArray[np.intp]
    at: npt.NDArray[np.int64]
    blocks: npt.NDArray[np.uint32]
    rows: npt.NDArray[np.intp] | None
    total: int
    end: int


def layout_of(pieces: Sequence[Piece], runs: int, end: int) -> Layout:
    """The layout of ``pieces``, in order, of a request with ``runs`` runs."""
    rows = [piece.run for piece in pieces]
    blocks = np.array([piece.blocks for piece in pieces], np.uint32)
    blocks.flags.writeable = False
    whole = rows == list(range(runs))
    pages: dict[int, int] = {}
    for piece in pieces:
        pages[piece.slab] = pages.get(piece.slab, 0) | piece.pages
    number = {slab: index for index, slab in enumerate(pages)}
    return Layout(
        tuple(pieces),
        tuple(pages.items()),
        np.array([number[piece.slab] for piece in pieces], np.intp),
        np.array([piece.at for piece in pieces], np.int64),
        blocks,
        None if whole else np.array(rows, np.intp),
        int(blocks.sum()),
        end,
    )


@lru_cache(LAYOUTS)
def cut(places: Places, size: int, slab_bytes: int) -> Layout:
    """The pieces of runs at ``places``, of blocks of ``size`` bytes; raises DeviceError for negative places."""
    pieces = []
    position = end = 0
    for index, (offset, left) in enumerate(places):
        if offset < 0 or left < 0:
            raise DeviceError(f"a run of {left} blocks at drive address {offset} was never written: it is negative")
        end = max(end, offset + left * size)
        while left:
            slab, at = divmod(offset, slab_bytes)
            blocks = min(left, -((at - slab_bytes) // size))
            pieces.append(Piece(slab, at, blocks, page_mask(at, at + blocks * size), index, position))
            left -= blocks
            offset += blocks * size
            position += blocks
    return layout_of(pieces, len(places), end)


class ScatteredLayout:
    """A :class:`Layout` of runs that each lie in one slab, as arrays: thousands of small pieces cost no loop.

    The pages of a span are all those between its first and its last run, of which some may not be needed.
    """

    rows: None = None

    def __init__(
        self, offsets: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], size: int, slab_bytes: int
    ) -> None:
        slabs = offsets // slab_bytes
        self.at = offsets - slabs * slab_bytes
        ends = self.at + counts * size
        edges, runs = stretches(changes(slabs, 0))  # neighbours in one slab, usually all of them
        self.which = np.repeat(np.arange(len(edges)), runs)
        first, last = np.minimum.reduceat(self.at, edges), np.maximum.reduceat(ends, edges)
        parts = zip(slabs[edges].tolist(), first.tolist(), last.tolist(), strict=True)
        self.spans = [(slab, page_mask(begin, end)) for slab, begin, end in parts]
        self.blocks = counts.astype(np.uint32)
        self.total, self.end = int(counts.sum()), int((slabs * slab_bytes + ends).max())
        self._size, self._slabs = size, slabs

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The runs as pieces."""
        pieces, position = [], 0
        lists = self._slabs.tolist(), self.at.tolist(), self.blocks.tolist()
        for run, (slab, at, blocks) in enumerate(zip(*lists, strict=True)):
            pieces.append(Piece(slab, at, blocks, page_mask(at, at + blocks * self._size), run, position))
            position += blocks
        return tuple(pieces)


def lay_out(runs: RunTable, size: int, slab_bytes: int) -> Layout | ScatteredLayout:
    """Where the blocks of ``runs``, of ``size`` bytes each, lie. Raises DeviceError for negative places."""
    if not isinstance(runs, ScatteredRuns):
        return cut(runs.places, size, slab_bytes)
    offsets, counts = runs.offsets, runs.counts
    last_block = offsets + (counts - 1) * size
    whole = len(offsets) and int(offsets.min()) >= 0 and int(counts.min()) > 0
    if whole and (last_block // slab_bytes == offsets // slab_bytes).all():
        return ScatteredLayout(offsets, counts, size, slab_bytes)
    return cut.__wrapped__(runs.places, size, slab_bytes)


def check_query(request: ScoreRequest, capabilities: Capabilities) -> None:
    """Raise DeviceError where a device of these capabilities cannot run ``request``, whatever its runs."""
    group, width = request.q.shape if request.q.ndim == 2 else (0, 0)
    if request.q.dtype != np.int8 or width not in capabilities.row_widths or not 1 <= group <= capabilities.max_group:
        raise DeviceError(
            f"queries must be int8 [1..{capabilities.max_group}, D] with D in {capabilities.row_widths}, not "
            f"{request.q.dtype} {list(request.q.shape)}"
        )
    if request.bits not in capabilities.bits:
        raise DeviceError(f"{capabilities.name} scores {capabilities.bits} bits per value, not {request.bits}")
    if request.mode is Mode.TOPK and not 1 <= request.k <= capabilities.max_top_k:
        raise DeviceError(f"k must lie in 1..{capabilities.max_top_k}, not {request.k}")


class Planned(NamedTuple):
    """A request that the device can run: its runs as arrays, and where their blocks lie."""

    request: ScoreRequest
    runs: RunTable
    layout: Layout | ScatteredLayout

    def part(self, slabs: Collection[int]) -> Planned:
        """Only the pieces that lie in ``slabs``; their positions stay those in the whole request."""
        layout = self.layout
        pieces = [piece for piece in layout.pieces if piece.slab in slabs]
        return self._replace(layout=layout_of(pieces, len(self.runs), layout.end))

    def command(self, addresses: Sequence[int] | npt.NDArray[np.int64], mode: Mode | None = None) -> Command:
        """The command that scores the pieces at these device ``addresses``; ``mode`` overrides the request's."""
        request, runs, layout = self
        c, r, b = runs.c, runs.r, runs.b
        if layout.rows is not None:
            c, r, b = c[layout.rows], r[layout.rows], b[layout.rows]
        start = request.initial_total
        return Command(
            np.array(addresses, np.uint64),
            layout.blocks,
            c,
            r,
            b,
            request.q,
            np.full(len(request.q), EMPTY, np.int32) if start is None else start,
            request.bits,
            request.mode if mode is None else mode,
            request.k,
        )


def plan(request: ScoreRequest, capabilities: Capabilities, slab_bytes: int, drive_bytes: int) -> Planned:
    """``request`` checked and laid out; raises DeviceError for what a device of these capabilities cannot run, and
    for runs that leave the drive's ``drive_bytes``."""
    check_query(request, capabilities)
    group, width = request.q.shape
    runs = run_table(request.runs, group)
    layout = lay_out(runs, block_bytes(width, request.bits), slab_bytes)
    if layout.total > capabilities.max_blocks:
        raise DeviceError(
            f"a request of {layout.total} blocks is too long (at most {capabilities.max_blocks}): split it"
        )
    if layout.end > drive_bytes:
        raise DeviceError(f"a run up to drive address {layout.end} was never written: the drive ends at {drive_bytes}")
    return Planned(request, runs, layout)


def result_bytes(result: ScoreResult) -> int:
    """Bytes of ``result`` that cross from the device to the host."""
    always = result.total.nbytes + result.bad.nbytes + result.positions.nbytes + result.priorities.nbytes
    return always + (0 if result.log_mass is None else result.log_mass.nbytes)
