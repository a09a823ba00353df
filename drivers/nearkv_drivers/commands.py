"""From a score request to what the kernel reads: runs cut at slab borders, then descriptors in device DRAM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nearkv_drivers.device import Capabilities, DeviceError, Mode, ScoreRequest, ScoreResult
from nearkv_drivers.frames import page_mask
from nearkv_drivers.kernel import Command
from nearkv_drivers.wire import EMPTY, block_bytes


class Piece(NamedTuple):
    """Blocks of one run that begin in one slab: ``at`` is the first one's byte in the slab's frame."""

    slab: int
    at: int
    blocks: int
    pages: int
    run: int
    position: int


def check_request(request: ScoreRequest, capabilities: Capabilities) -> None:
    """Raise DeviceError where ``request`` is not one that a device of these capabilities can run."""
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
    blocks = sum(run.blocks for run in request.runs)
    if blocks > capabilities.max_blocks:
        raise DeviceError(f"a request of {blocks} blocks is too long (at most {capabilities.max_blocks}): split it")
    if any(not len(run.c) == len(run.r) == len(run.b) == group for run in request.runs):
        raise DeviceError(f"c, r and b of every run must be [{group}], one value per query head")


def cut(request: ScoreRequest, slab_bytes: int, drive_bytes: int) -> list[Piece]:
    """The pieces of ``request``, in order; raises DeviceError for runs that leave the drive's ``drive_bytes``."""
    size = block_bytes(request.q.shape[1], request.bits)
    pieces = []
    position = 0
    for index, run in enumerate(request.runs):
        offset, left = run.offset, run.blocks
        if offset < 0 or left < 0 or offset + left * size > drive_bytes:
            raise DeviceError(
                f"a run of {left} blocks at drive address {offset} was never written: the drive ends at {drive_bytes}"
            )
        while left:
            slab, at = divmod(offset, slab_bytes)
            blocks = min(left, -((at - slab_bytes) // size))
            pieces.append(Piece(slab, at, blocks, page_mask(at, at + blocks * size), index, position))
            left -= blocks
            offset += blocks * size
            position += blocks
    return pieces


def command_of(
    request: ScoreRequest, pieces: Sequence[Piece], addresses: Sequence[int], mode: Mode | None = None
) -> Command:
    """The command that scores ``pieces`` of ``request`` at these device ``addresses``; ``mode`` overrides its own."""
    group = request.q.shape[0]
    runs = request.runs
    if runs:
        c = np.concatenate([run.c for run in runs]).reshape(len(runs), group)
        r = np.concatenate([run.r for run in runs]).reshape(len(runs), group)
        b = np.concatenate([run.b for run in runs]).reshape(len(runs), group)
    else:
        c, r, b = (np.empty((0, group), kind) for kind in (np.uint16, np.uint8, np.int32))
    rows = [piece.run for piece in pieces]
    if rows != list(range(len(runs))):
        c, r, b = c[rows], r[rows], b[rows]
    start = request.initial_total
    return Command(
        np.array(addresses, np.uint64),
        np.array([piece.blocks for piece in pieces], np.uint32),
        c,
        r,
        b,
        request.q,
        np.full(group, EMPTY, np.int32) if start is None else start,
        request.bits,
        request.mode if mode is None else mode,
        request.k,
    )


def result_bytes(result: ScoreResult) -> int:
    """Bytes of ``result`` that cross from the device to the host."""
    arrays = (result.total, result.bad, result.positions, result.priorities)
    return sum(array.nbytes for array in arrays) + (0 if result.log_mass is None else result.log_mass.nbytes)
