"""A drive's address space as one regular file: direct I/O in batches, growth in steps, one owner at a time.

The content is scratch: it is worth nothing to a later run, so an existing drive file starts empty again. A file that
this class created is removed on close, also when the interpreter exits early; one that existed before is kept. What
a killed run leaves behind is still marked temporary, so the next run that uses the path cleans it up.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import weakref
from collections import deque
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from nearkv_drivers._io import allocate
from nearkv_drivers.device import ALIGNMENT, DeviceError, StorageError
from nearkv_drivers.drive_open import open_drive
from nearkv_drivers.io_engine import IoBatch, IoEngine, default_engine
from nearkv_drivers.memory import address_of, aligned_buffer
from nearkv_drivers.superblock import SUPERBLOCK_BYTES, Superblock

GROWTH_STEP = 64 << 20
"""Bytes that are allocated at a time: few metadata updates, and a full disk is found before data is half written."""


class DriveTransfer:
    """A batch in flight on a drive file; keeps the memory that it was given alive until then."""

    __slots__ = ("_batch", "_kept", "_path", "_waited", "_write")

    def __init__(self, batch: IoBatch, path: Path, write: bool, kept: object) -> None:
        self._batch = batch
        self._path = path
        self._write = write
        self._kept = kept
        self._waited = False

    def wait(self) -> None:
        """Block until every transfer is complete; raises StorageError naming the first that failed."""
        self._waited = True
        failure = self._batch.wait()
        self._kept = None
        if failure is not None:
            raise transfer_error(self._path, *failure)

    def lost(self) -> StorageError | None:
        """Wait; the error of a write that failed and that nobody has waited for."""
        failure = self._batch.wait()
        if failure is None or self._waited or not self._write:
            return None
        return transfer_error(self._path, *failure)

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return self._batch.done()


def transfer_error(path: Path, error: int, file_offset: int) -> StorageError:
    """The sentence for a transfer that failed with ``error`` (errno; 0: the file ended) at ``file_offset``."""
    at = f"drive address {file_offset - SUPERBLOCK_BYTES}"
    if error == 0:
        return StorageError(f"{path} was truncated before {at} while in use: its content is lost, start again")
    if error in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(f"no space left for {path} at {at}: free space or choose a path on a larger disk")
    return StorageError(f"{path}: {os.strerror(error)} at {at}: check the drive (dmesg) and start again")


class DriveFile:
    """Drive addresses 0, 1, … of a file at ``path``; see the module's text for who owns the file.

    Raises StorageError where the path cannot be used, naming the reason and the remedy.
    """

    def __init__(self, path: str | os.PathLike[str], *, engine: IoEngine | None = None) -> None:
        self.path = Path(path).absolute()
        self._engine = engine if engine is not None else default_engine()
        opened = open_drive(self.path)
        self._fd = opened.fd
        self.direct_io = opened.direct_io
        self._superblock = Superblock(0, opened.temporary)
        self._growth = threading.Lock()
        self._allocated: set[int] = set()
        self._flight_lock = threading.Lock()
        self._flight: deque[DriveTransfer] = deque()
        self._lost: StorageError | None = None
        self._closed = False
        self._release = weakref.finalize(
            self, _release, self._fd, self.path, opened.temporary, self._flight, os.getpid()
        )
        try:
            self._write_superblock(self._superblock)
            os.ftruncate(self._fd, SUPERBLOCK_BYTES)
        except BaseException:
            self._release()
            raise

    @property
    def length(self) -> int:
        """Drive bytes that the file holds now."""
        return self._superblock.length

    def fileno(self) -> int:
        """The file descriptor; drive address 0 is file offset ``SUPERBLOCK_BYTES``."""
        return self._fd

    def write(self, offset: int, data: npt.NDArray[np.uint8]) -> DriveTransfer:
        """Write ``data`` (uint8, 1-d, contiguous) at drive address ``offset``; offset and size are multiples of 4,096.

        ``data`` must not change until the handle is done. An array whose address is not aligned is copied first.
        Raises StorageError at once where the file cannot grow.
        """
        if data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous:
            raise DeviceError(f"a write takes a contiguous uint8 [n] array, not {data.dtype} {list(data.shape)}")
        if offset < 0 or offset % ALIGNMENT or data.size % ALIGNMENT:
            raise DeviceError(
                f"a write of {data.size} bytes at drive address {offset} is not aligned: both must be multiples of "
                f"{ALIGNMENT}"
            )
        if address_of(data) % ALIGNMENT:
            copy = aligned_buffer(data.size)
            copy[:] = data
            data = copy
        self._reserve(offset, data.size)
        return self._submit(
            True,
            np.array([offset], np.int64),
            np.array([address_of(data)], np.uint64),
            np.array([data.size], np.int64),
            data,
        )

    def read(
        self,
        offsets: npt.NDArray[np.int64],
        lengths: int | npt.NDArray[np.int64],
        addresses: npt.NDArray[np.uint64],
        kept: object = None,
    ) -> DriveTransfer:
        """Read ``lengths`` bytes (one for all, or one each) at every drive address to the host address beside it.

        All are multiples of 4,096. ``kept`` is held until the handle is done, for memory that would otherwise go away.
        """
        sizes = np.array([lengths], np.int64) if isinstance(lengths, int) else lengths
        if not len(offsets):
            return self._submit(False, offsets, addresses, sizes, kept)
        mixed = (
            int(np.bitwise_or.reduce(offsets)) | int(np.bitwise_or.reduce(sizes)) | int(np.bitwise_or.reduce(addresses))
        )
        if mixed % ALIGNMENT or int(offsets.min()) < 0 or int(sizes.min()) <= 0:
            raise DeviceError(
                f"a read is not aligned: drive addresses, lengths and host addresses must be multiples of {ALIGNMENT}"
            )
        end = int((offsets + sizes).max())
        if end > self.length:
            raise StorageError(f"drive address {end - 1} was never written: {self.path} ends at {self.length}")
        return self._submit(False, offsets, addresses, sizes, kept)

    def flush(self) -> None:
        """Return when every finished write is durable."""
        self._check_open()
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise StorageError(
                f"{self.path} could not be made durable ({error.strerror}): check the drive (dmesg) and start again"
            ) from error

    def close(self) -> None:
        """Wait for what is in flight, then remove the file if this run created it, else mark it unused.

        Raises StorageError where a write had failed and nobody waited for it.
        """
        with self._growth:
            if self._closed:
                return
            self._closed = True
            try:
                with self._flight_lock:
                    while self._flight:
                        self._reap()
                if not self._superblock.temporary:
                    self._write_superblock(replace(self._superblock, in_use=False))
            finally:
                self._release()
            if self._lost is not None:
                raise self._lost

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _submit(
        self,
        write: bool,
        offsets: npt.NDArray[np.int64],
        addresses: npt.NDArray[np.uint64],
        lengths: npt.NDArray[np.int64],
        kept: object,
    ) -> DriveTransfer:
        with self._flight_lock:
            self._check_open()
            while self._flight and self._flight[0].done():
                self._reap()
            batch = self._engine.submit(self._fd, write, offsets + SUPERBLOCK_BYTES, addresses, lengths)
            transfer = DriveTransfer(batch, self.path, write, kept)
            self._flight.append(transfer)
        return transfer

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceError(f"{self.path} is closed: open the device again")

    def _reap(self) -> None:
        lost = self._flight.popleft().lost()
        if self._lost is None:
            self._lost = lost

    def _reserve(self, offset: int, size: int) -> None:
        """Allocate the steps that hold drive bytes ``offset`` .. ``offset + size``; the rest of the file may be holes.

        The file is never shorter than the length that its superblock states.
        """
        first, last = offset // GROWTH_STEP, (offset + size - 1) // GROWTH_STEP
        if all(step in self._allocated for step in range(first, last + 1)):
            return
        with self._growth:
            self._check_open()
            end = (last + 1) * GROWTH_STEP
            error = self._allocate(first * GROWTH_STEP, end)
            whole_steps = error == 0
            if error in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # a whole step does not fit, but this may
                end = offset + size
                error = self._allocate(offset, end)
            if error == errno.EFBIG:
                raise StorageError(
                    f"{self.path} may not grow to {end} bytes (file size limit): raise it (ulimit -f) or choose "
                    "another file system"
                )
            if error:
                raise transfer_error(self.path, error, offset + SUPERBLOCK_BYTES)
            if end > self.length:
                self._write_superblock(replace(self._superblock, length=end))
            if whole_steps:  # last, as other threads read it without the lock
                self._allocated.update(range(first, last + 1))

    def _allocate(self, start: int, end: int) -> int:
        """Give drive addresses ``start`` .. ``end`` room on the disk; returns 0 or an errno."""
        error = allocate(self._fd, start + SUPERBLOCK_BYTES, end - start)
        if error != errno.EOPNOTSUPP:
            return error
        try:  # a file system without fallocate finds out at the write
            os.ftruncate(self._fd, max(end, self.length) + SUPERBLOCK_BYTES)
        except OSError as failure:
            return failure.errno or errno.EIO
        return 0

    def _write_superblock(self, superblock: Superblock) -> None:
        page = aligned_buffer(SUPERBLOCK_BYTES)
        page[:] = np.frombuffer(superblock.pack(), np.uint8)
        try:
            if os.pwrite(self._fd, page.data, 0) != SUPERBLOCK_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise transfer_error(self.path, error.errno or errno.EIO, 0) from error
        self._superblock = superblock


def _release(fd: int, path: Path, temporary: bool, flight: deque[DriveTransfer], owner: int) -> None:
    """Give the file up, whichever way the object goes: close, garbage collection, interpreter exit, an exception."""
    if os.getpid() != owner:  # a forked child shares neither the threads nor the file
        return
    while flight:
        flight.popleft().lost()
    if temporary:
        _unlink_own(fd, path)
    os.close(fd)


def _unlink_own(fd: int, path: Path) -> None:
    """Remove ``path`` if it still is the file behind ``fd``: never a file that somebody put in its place."""
    try:
        there = path.stat(follow_symlinks=False)
    except OSError:
        return
    if os.path.samestat(there, os.fstat(fd)) and stat.S_ISREG(there.st_mode):
        path.unlink(missing_ok=True)
