"""Opening a drive file: which paths are accepted, and the one sentence for each that is not."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from nearkv_drivers.device import StorageError
from nearkv_drivers.superblock import SUPERBLOCK_BYTES, NotADriveFileError, Superblock


@dataclass(frozen=True)
class OpenedDrive:
    """A locked descriptor; ``temporary`` says that the file goes when the descriptor does."""

    fd: int
    direct_io: bool
    temporary: bool


def open_drive(path: Path) -> OpenedDrive:
    """Open ``path`` for exclusive use: a new file, an empty one, or a sound drive file that nobody uses.

    Raises StorageError for everything else, without having changed it.
    """
    fd, created = _open_descriptor(path)
    try:
        _lock(fd, path)
        temporary = created or _existing_is_temporary(fd, path)
        return OpenedDrive(fd, _set_direct(fd), temporary)
    except BaseException:
        os.close(fd)
        raise


def _open_descriptor(path: Path) -> tuple[int, bool]:
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        try:
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600), True
        except FileExistsError:
            return os.open(path, flags | os.O_NONBLOCK), False  # a FIFO must not block here
    except OSError as error:
        raise StorageError(_open_sentence(path, error)) from error


def _open_sentence(path: Path, error: OSError) -> str:
    if error.errno == errno.ENOENT and not path.parent.exists():
        return f"the folder {path.parent} does not exist: create it or choose another path"
    if error.errno in (errno.EISDIR, errno.ENOTDIR):
        at = path if error.errno == errno.EISDIR else path.parent
        kind = "is a folder" if error.errno == errno.EISDIR else "is not a folder"
        return f"{at} {kind}: give the path of a file that nearkv may create"
    if error.errno == errno.EROFS:
        return f"{path} lies on a read-only file system: choose another path"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"no permission to create or write {path}: choose another path or change its permissions"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left to create {path}: free space or choose a path on another disk"
    return f"{path} cannot be opened ({os.strerror(error.errno or errno.EIO)}): choose another path"


def _lock(fd: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise StorageError(f"{path} is not a regular file: give the path of a file that nearkv may create")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StorageError(f"{path} is in use by another device: close that one or choose another path") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be locked ({error.strerror}): choose a local file system") from error


def _existing_is_temporary(fd: int, path: Path) -> bool:
    size = os.fstat(fd).st_size
    if size == 0:
        return False
    try:
        superblock = Superblock.unpack(os.pread(fd, SUPERBLOCK_BYTES, 0))
    except NotADriveFileError as error:
        raise StorageError(f"{path} exists and was left alone: {error}") from error
    if size < SUPERBLOCK_BYTES + superblock.length:
        raise StorageError(
            f"{path} is truncated: it holds {size} bytes where its superblock says "
            f"{SUPERBLOCK_BYTES + superblock.length}; delete it or choose another path"
        )
    return superblock.temporary


def _set_direct(fd: int) -> bool:
    """Bypass the page cache from now on; False where the file system cannot."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_RDWR | os.O_DIRECT)
    except OSError:
        return False
    return True
