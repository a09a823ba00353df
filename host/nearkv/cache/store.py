"""The drive side of one layer: seals blocks write-behind, knows where every block lies, reads blocks back.

Life of a block: written once, when sealed; the drive is a complete backing store, so demotion only drops a copy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nearkv.cache.buffers import BlockBuffer, token_view
from nearkv.cache.cold import ColdBlocks
from nearkv.cache.extents import ExtentAllocator, ScoreExtent, round_up
from nearkv.cache.geometry import Geometry
from nearkv.cache.runs import BlockRuns, RunIndex, ScoreRun, span_runs
from nearkv_drivers import native
from nearkv_drivers.device import Device, ReadHandle, StorageError
from nearkv_drivers.wire import BLOCK_TOKENS, ContractError, Segment

GROWTH_BLOCKS = 64
"""Blocks by which a stream's extents grow once what was expected is used up."""

KEPT_SPANS = 4
"""Ranges of blocks whose runs a stream remembers: all of them, or the host's and the drive's part."""


class Keeper(Protocol):
    """Keeps something of every block in DRAM beside the drive's copy."""

    def sealed(
        self, stream: int, first: int, kv_blocks: npt.NDArray[np.uint8], score_blocks: npt.NDArray[np.uint8]
    ) -> None:
        """Blocks ``first`` and following of ``stream`` were sealed: uint8 [n, kv block bytes] and [n, score bytes]."""


class StreamIndex:
    """Where one stream's blocks lie, and against which segments its keys were encoded."""

    def __init__(self, block_bytes: int) -> None:
        self.block_bytes = block_bytes
        self.segments: list[Segment] = []
        self.runs: list[ScoreRun] = []
        self.score_extent: ScoreExtent | None = None
        self.kv_next = 0
        self.kv_room = 0
        self._indexed: tuple[int, int] | None = None
        self._spans: dict[tuple[int, int], BlockRuns] = {}

    def span(self, first: int, last: int) -> BlockRuns:
        """The runs that hold blocks ``first`` .. ``last`` (exclusive).

        Sealed blocks stay where they are, so the answers to the last few questions are kept.
        """
        found = self._spans.get((first, last))
        if found is None:
            if len(self._spans) >= KEPT_SPANS:
                self._spans.clear()
            found = self._spans[first, last] = span_runs(self.runs, first, last, self.block_bytes)
        return found

    def scattered(self, blocks: npt.NDArray[np.int64]) -> BlockRuns:
        """The runs that hold ``blocks`` (ascending, distinct)."""
        now = len(self.runs), self.runs[-1].blocks
        if self._indexed != now:
            self._indexed, self._index = now, RunIndex(self.runs)
        return self._index.scattered(blocks, self.block_bytes)


class LayerStore:
    """All streams of one layer on a device. Block indices count from each stream's first real token.

    With ``cold``, K and V are encoded on their way to the drive and decoded on their way back.
    """

    def __init__(
        self,
        layer: int,
        geometry: Geometry,
        device: Device,
        allocator: ExtentAllocator,
        expected_blocks: int,
        cold: ColdBlocks | None = None,
    ) -> None:
        self.layer = layer
        self.geometry = geometry
        self.cold = cold
        self.streams = [StreamIndex(geometry.score_block_bytes) for _ in range(geometry.streams)]
        self.sealed = np.zeros(geometry.streams, np.int64)
        """Blocks of each stream that are on the drive (or on their way there)."""
        self.keepers: list[Keeper] = []
        self._device = device
        self._allocator = allocator
        self._expected = expected_blocks
        self._kv_offset = np.full((geometry.streams, max(expected_blocks, GROWTH_BLOCKS)), -1, np.int64)
        self._crc = np.zeros(self._kv_offset.shape, np.uint32)
        self._pending: list[tuple[ReadHandle, npt.NDArray[np.uint8]]] = []
        self._scaling: tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]] | None = None

    def seal(
        self,
        streams: range,
        blocks: npt.NDArray[np.uint8],
        *,
        adopt: bool,
        order: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Put ``blocks`` (uint8 [R, n, kv block bytes]) of R ``streams`` behind those already sealed, equally many.

        The writes are in flight when this returns; ``blocks`` must not change until :meth:`settle`. ``adopt`` lets the
        blocks join a stream's last segment where its scale allows. ``order`` (int64 [R, n], rows of permutations) is
        the order in which the KV blocks lie on the drive; ``blocks`` may be brought into it in place. Score blocks are
        always in order of position, which is what the kernel counts. Raises ContractError naming layer, head and token
        for keys that are not finite; where K and V are encoded, for values as well.
        """
        first, count = int(self.sealed[streams[0]]), blocks.shape[1]
        stored = blocks if self.cold is None else self.cold.encode(streams, blocks, first)
        segments = self._encode(streams, blocks, first, adopt)
        self._reserve_tables(first + count)
        orders = [np.arange(count)] * len(streams) if order is None else order
        for stream, rows, written, (segment, number), lie in zip(
            streams, blocks, stored, segments, orders, strict=True
        ):
            self._append_scores(self.streams[stream], segment, number)
            self._crc[stream, first : first + count] = native.crc32c_rows(written)
            for keeper in self.keepers:
                keeper.sealed(stream, first, rows, segment.blocks)
            if order is not None:
                written[:] = written[lie]
            self._append_kv(stream, written, first + lie)
        self.sealed[streams] += count

    @property
    def in_flight_bytes(self) -> int:
        """Bytes of the buffers whose writes nobody has waited for."""
        return sum(data.nbytes for _, data in self._pending)

    def settle(self) -> None:
        """Wait for every write in flight. Raises StorageError naming the first that failed."""
        pending, self._pending = self._pending, []
        for handle, _ in pending:
            handle.wait()

    def scaling(self, streams: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
        """Centres float32 [R, segments, d] and scales float64 [R, segments] of ``streams`` [R], ascending.

        A stream with fewer segments than another is filled up; what fills it is never used.
        """
        if self._scaling is None:
            most = max((index.segments for index in self.streams), key=len)
            padded = [(index.segments or most)[: len(most)] for index in self.streams]
            padded = [row + row[-1:] * (len(most) - len(row)) for row in padded]
            self._scaling = (
                np.array([[segment.centre for segment in row] for row in padded], np.float32),
                np.array([[segment.scale for segment in row] for row in padded], np.float64),
            )
        centres, scales = self._scaling
        return (centres, scales) if len(streams) == len(centres) else (centres[streams], scales[streams])

    def fetch(
        self, streams: npt.NDArray[np.int64], blocks: npt.NDArray[np.int64], addresses: npt.NDArray[np.uint64]
    ) -> int:
        """Read KV ``blocks`` of ``streams`` to host ``addresses``, all [n], in one batch.

        They are of use after :meth:`verify` and :meth:`decode`. In order of drive address, so that neighbours become
        one read wherever they go in memory. Returns how many reads that makes. Raises StorageError.
        """
        size, addresses = self.geometry.drive_block_bytes, self._landing(addresses)
        offsets = self._kv_offset[streams, blocks]
        order = np.argsort(offsets)
        offsets = offsets[order]
        self._device.read(offsets, size, addresses[order]).wait()
        return len(offsets) and 1 + int(np.count_nonzero(np.diff(offsets) != size))

    def verify(
        self, streams: npt.NDArray[np.int64], blocks: npt.NDArray[np.int64], addresses: npt.NDArray[np.uint64]
    ) -> None:
        """Check KV ``blocks`` read to host ``addresses`` against their CRC-32C. Raises StorageError."""
        found = native.crc32c_at(self._landing(addresses), self.geometry.drive_block_bytes)
        wrong = found != self._crc[streams, blocks]
        if wrong.any():
            at = int(np.argmax(wrong))
            raise StorageError(
                f"KV block {int(blocks[at])} of layer {self.layer}, head {int(streams[at]) % self.geometry.kv_heads}, "
                f"sequence {int(streams[at]) // self.geometry.kv_heads} is damaged on {self._device.url} "
                "(CRC-32C does not match): check the drive and run the prompt again"
            )

    def decode(
        self, streams: npt.NDArray[np.int64], blocks: npt.NDArray[np.int64], addresses: npt.NDArray[np.uint64]
    ) -> None:
        """Bring KV ``blocks`` that were read to host ``addresses`` and checked to the model's type."""
        if self.cold is not None:
            self.cold.decode(streams, blocks, addresses)

    def read_all(self, target: BlockBuffer) -> None:
        """Read every sealed block of every stream into ``target``, at its own position, and check it."""
        self.settle()
        streams = np.repeat(np.arange(len(self.streams)), self.sealed)
        blocks = np.concatenate([np.arange(n) for n in self.sealed]) if len(streams) else streams
        if not len(streams):
            return
        addresses = target.addresses(streams, blocks)
        self.fetch(streams, blocks, addresses)
        self.verify(streams, blocks, addresses)
        self.decode(streams, blocks, addresses)

    def _landing(self, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Where the drive's form of blocks that belong at host ``addresses`` lies before it is decoded."""
        return addresses if self.cold is None else self.cold.landing(addresses)

    def _encode(
        self, streams: range, blocks: npt.NDArray[np.uint8], first: int, adopt: bool
    ) -> list[tuple[Segment, int]]:
        """Encode the keys of ``blocks`` [R, n, bytes]; per stream the new segment and the one it is scored with."""
        g = self.geometry
        one = Geometry(1, len(streams), g.head_dim, g.dtype, g.bits)
        keys = token_view(blocks, one)[0, ..., 0, :].flatten(1, 2).float().numpy()
        last = [self.streams[stream].segments[-1:] for stream in streams]
        try:
            joins = np.zeros(len(streams), np.bool_)
            if adopt and all(last):
                joins = native.can_adopt_all(keys, [segment for (segment,) in last])
            return self._encode_rows(keys, streams, first, joins, last)
        except ContractError as error:
            raise self._named(keys, streams, first, error) from error

    def _encode_rows(
        self,
        keys: npt.NDArray[np.float32],
        streams: range,
        first: int,
        joins: npt.NDArray[np.bool_],
        last: list[list[Segment]],
    ) -> list[tuple[Segment, int]]:
        """Encode ``keys`` [R, tokens, d]: those that join their stream's ``last`` segment, and those that start one."""
        encoded: dict[int, tuple[Segment, int]] = {}
        for joining in (True, False):
            rows = np.flatnonzero(joins == joining).tolist()
            if not rows:
                continue
            segments = native.encode_segments(
                keys if len(rows) == len(keys) else keys[rows],
                self.geometry.bits,
                streams=[self.layer << 32 | streams[row] for row in rows],
                first_blocks=[first] * len(rows),
                adopt=[last[row][0] for row in rows] if joining else None,
            )
            for row, segment in zip(rows, segments, strict=True):
                encoded[row] = segment, self._segment_of(streams[row], segment, new=not joining)
        return [encoded[row] for row in range(len(streams))]

    def _named(self, keys: npt.NDArray[np.float32], streams: range, first: int, error: ContractError) -> ContractError:
        """``error`` with the layer, head and token of the first key that is not finite, if there is one."""
        bad = np.argwhere(~np.isfinite(keys).all(axis=2))
        if not len(bad):
            return ContractError(f"layer {self.layer}: {error}")
        row, token = bad[0].tolist()
        sequence, head = divmod(streams[row], self.geometry.kv_heads)
        at = first * BLOCK_TOKENS + token
        return ContractError(
            f"layer {self.layer}, KV head {head}, sequence {sequence}: the key of token {at} is not finite "
            "(NaN or infinity)"
        )

    def _segment_of(self, stream: int, segment: Segment, *, new: bool) -> int:
        """The number of the segment that ``segment``'s blocks are scored with; a ``new`` one is added."""
        segments = self.streams[stream].segments
        if new:
            # Only centre and scale are needed again; the blocks would be a second copy of what the drive holds.
            segments.append(replace(segment, blocks=segment.blocks[:0].copy()))
            self._scaling = None
        return len(segments) - 1

    def _append_scores(self, index: StreamIndex, segment: Segment, number: int) -> None:
        blocks, size = segment.blocks, self.geometry.score_block_bytes
        while len(blocks):
            extent = index.score_extent
            if extent is None or not extent.room(size):
                room = max(self._expected - sum(run.blocks for run in index.runs), len(blocks), GROWTH_BLOCKS)
                capacity = round_up(room * size)
                extent = index.score_extent = ScoreExtent(self._allocator.allocate(capacity, "scores"), capacity)
            part = blocks[: extent.room(size)]
            at = extent.offset + extent.used
            last = index.runs[-1] if index.runs else None
            if last is not None and last.segment == number and last.offset + last.blocks * size == at:
                last.blocks += len(part)
            else:
                index.runs.append(ScoreRun(at, len(part), number))
            self._pending.append(extent.append(part, self._device))
            blocks = blocks[len(part) :]

    def _append_kv(self, stream: int, blocks: npt.NDArray[np.uint8], numbers: npt.NDArray[np.int64]) -> None:
        """Write ``blocks`` [n, bytes], the stream's blocks ``numbers`` [n], one behind the other."""
        index, size = self.streams[stream], self.geometry.drive_block_bytes
        done = 0
        while done < len(blocks):
            if not index.kv_room:
                index.kv_room = max(self._expected - int(self.sealed[stream]) - done, len(blocks) - done, GROWTH_BLOCKS)
                index.kv_next = self._allocator.allocate(index.kv_room * size, "kv")
            count = min(index.kv_room, len(blocks) - done)
            part = blocks[done : done + count].reshape(-1)
            self._pending.append((self._device.write(index.kv_next, part), part))
            self._kv_offset[stream, numbers[done : done + count]] = index.kv_next + np.arange(count) * size
            index.kv_next += count * size
            index.kv_room -= count
            done += count

    def _reserve_tables(self, blocks: int) -> None:
        have = self._kv_offset.shape[1]
        if blocks > have:
            wide = ((0, 0), (0, max(have, blocks - have)))
            self._kv_offset = np.pad(self._kv_offset, wide, constant_values=-1)
            self._crc = np.pad(self._crc, wide)
