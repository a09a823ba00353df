"""The Device interface: what the host asks of a computational drive, whatever stands behind the URL.

A device is a drive (NVMe) and a score kernel with DRAM of its own. Its drive address space is a plain range of bytes:
the host decides where extents lie, the device stores them. Score extents are staged into device DRAM, where the
kernel reads them; KV blocks go straight from the drive to the host. Everything is batched, because a kernel start
costs tens of microseconds on a card and small reads one at a time waste a drive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from nearkv_drivers.wire import MAX_GROUP, MAX_TOP_K, ROW_WIDTHS

ALIGNMENT = 4096
"""Bytes to which drive offsets, extent lengths and I/O buffers are aligned (O_DIRECT, P2P)."""


class DeviceError(RuntimeError):
    """A device cannot do what was asked; the message names the thing and the remedy."""


class StorageError(DeviceError):
    """The drive failed: full, read-only, truncated, an I/O error or a damaged block. Nothing half-written is read."""


class Mode(Enum):
    """What a score request returns."""

    MASS = 0
    """The log-mass of every block, and the totals."""
    TOPK = 1
    """The k blocks of highest priority, and the totals."""


@dataclass(frozen=True)
class Capabilities:
    """What a device can do. Sizes are in bytes, counts per request unless said otherwise."""

    name: str
    bits: tuple[int, ...] = (4, 8)
    row_widths: tuple[int, ...] = ROW_WIDTHS
    max_group: int = MAX_GROUP
    max_top_k: int = MAX_TOP_K
    max_blocks: int = 1 << 17
    device_dram_bytes: int = 0
    direct_io: bool = False
    """Whether drive I/O bypasses the page cache."""
    p2p: bool = True
    """Whether score blocks go from the drive into device DRAM without passing host memory."""
    simulated: bool = False
    """True where times are simulated or emulated, not those of a real card."""


@dataclass(frozen=True)
class Run:
    """Consecutive score blocks of one segment: where they lie and how this query scales against their segment.

    ``offset`` is the drive address (bytes) of the first block; blocks follow each other without gaps.
    ``c`` uint16, ``r`` uint8 and ``b`` int32 are [G].
    """

    offset: int
    blocks: int
    c: npt.NDArray[np.uint16]
    r: npt.NDArray[np.uint8]
    b: npt.NDArray[np.int32]


@dataclass(frozen=True)
class ScoreRequest:
    """Score the blocks of one stream. ``q`` is int8 [G, D]; positions in the result count over ``runs``.

    ``runs`` may be a :class:`~nearkv_drivers.runs.RunTable`, which saves a pass over every run.
    ``initial_total`` (int32 [G]) is T0: the mass that the host knows in other tiers; None for nothing.
    ``k`` is used by TOPK only.
    """

    runs: Sequence[Run]
    q: npt.NDArray[np.int8]
    bits: int
    mode: Mode = Mode.TOPK
    k: int = 0
    initial_total: npt.NDArray[np.int32] | None = None


@dataclass(frozen=True)
class ScoreResult:
    """What one request returned: ``total`` int32 [G] and ``bad`` uint32 positions always; the rest by mode.

    TOPK: ``positions`` and ``priorities``, uint32, highest first. MASS: ``log_mass`` int32 [G, blocks].
    """

    total: npt.NDArray[np.int32]
    bad: npt.NDArray[np.uint32]
    positions: npt.NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    priorities: npt.NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    log_mass: npt.NDArray[np.int32] | None = None


@dataclass
class Telemetry:
    """Counters since the device was opened. Bytes by path, and what the kernel did."""

    drive_to_device: int = 0
    """Score blocks read from the drive into device DRAM (P2P on a card)."""
    drive_to_device_through_host: int = 0
    """The same where there is no P2P: they cross the host's memory, and its link to the device, on the way."""
    drive_to_host: int = 0
    """KV blocks read by the host."""
    device_to_host: int = 0
    """Score results."""
    host_to_device: int = 0
    """Commands, descriptors and queries, and score blocks written through to device DRAM."""
    host_to_drive: int = 0
    """Score and KV extents written."""
    commands: int = 0
    """Kernel starts."""
    blocks_scored: int = 0
    bytes_scored: int = 0
    bad_blocks: int = 0
    device_dram_used: int = 0
    extra: dict[str, float] = field(default_factory=dict)
    """Figures that only some devices have (cycles, temperatures); each device documents its keys."""


@runtime_checkable
class ScoreHandle(Protocol):
    """A submitted kernel start."""

    def wait(self) -> list[ScoreResult]:
        """Block until done; one result per request, in order. Raises what the start failed with."""

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""


@runtime_checkable
class TimedHandle(Protocol):
    """A score handle that knows when its start ended, though nobody may have waited at that moment."""

    @property
    def finished(self) -> float:
        """When the start ended (seconds of ``time.monotonic``), once it is done."""


@runtime_checkable
class ReadHandle(Protocol):
    """A submitted batch of reads or writes."""

    def wait(self) -> None:
        """Block until every transfer is complete. Raises StorageError naming the first that failed."""

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""


@runtime_checkable
class Device(Protocol):
    """A computational drive. Methods may be called from several threads; several handles may be in flight."""

    @property
    def url(self) -> str:
        """The URL that opened it."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    def write(self, offset: int, data: npt.NDArray[np.uint8], *, score_blocks: bool = False) -> ReadHandle:
        """Write ``data`` (uint8, 1-d) at drive address ``offset``, both multiples of 4,096 bytes.

        ``data`` must not change until the handle is done; the handle keeps it alive. ``score_blocks`` says that the
        kernel will read this range, so that a device may keep it in its DRAM on the way.
        """

    def read(self, offsets: npt.NDArray[np.int64], length: int, addresses: npt.NDArray[np.uint64]) -> ReadHandle:
        """Read ``length`` bytes at each drive address in ``offsets`` to the host address beside it, in one batch.

        Offsets, length and addresses are multiples of 4,096; the memory must stay alive until the handle is done.
        """

    def submit(self, requests: Sequence[ScoreRequest]) -> ScoreHandle:
        """Start the kernel once on ``requests``. Blocks must have been written and their handles waited for.

        Raises DeviceError for a request outside the capabilities or for blocks that were never written.
        """

    def flush(self) -> None:
        """Return when every finished write is durable (fdatasync on a file)."""

    def telemetry(self) -> Telemetry:
        """A snapshot of the counters."""

    def close(self) -> None:
        """Wait for what is in flight and release the drive; closing twice is harmless.

        Raises StorageError where a write failed and nobody waited for its handle.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
