"""The first 4 KiB of a drive file: what it is, how long it must be, and whether a run is using it.

Little endian: 0..7 magic, 8..11 version, 12..15 flags, 16..31 identity of the content (UUID, new on every open),
32..39 drive bytes that the file holds after the superblock, 40..43 CRC-32C of bytes 0..39, then zeros.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass, field

import crc32c

SUPERBLOCK_BYTES = 4096
MAGIC = b"NEARKVDF"
VERSION = 1
_LAYOUT = struct.Struct("<8sII16sQ")
_IN_USE, _TEMPORARY = 1, 2


class NotADriveFileError(ValueError):
    """These bytes are no superblock of this version; the message says in which way."""


@dataclass(frozen=True)
class Superblock:
    """``length`` drive bytes follow. ``temporary`` files are removed by whoever closes them."""

    length: int
    temporary: bool
    in_use: bool = True
    identity: uuid.UUID = field(default_factory=uuid.uuid4)

    def pack(self) -> bytes:
        """The 4,096 bytes of this superblock."""
        flags = _IN_USE * self.in_use | _TEMPORARY * self.temporary
        head = _LAYOUT.pack(MAGIC, VERSION, flags, self.identity.bytes, self.length)
        return (head + struct.pack("<I", crc32c.crc32c(head))).ljust(SUPERBLOCK_BYTES, b"\0")

    @classmethod
    def unpack(cls, data: bytes) -> Superblock:
        """Read a superblock back; raises NotADriveFileError for anything but a sound one of this version."""
        if len(data) < SUPERBLOCK_BYTES or not data.startswith(MAGIC):
            raise NotADriveFileError("it is not a nearkv drive file; choose another path")
        _, version, flags, identity, length = _LAYOUT.unpack_from(data)
        if version != VERSION:
            raise NotADriveFileError(f"it is a drive file of version {version}, not {VERSION}; choose another path")
        (crc,) = struct.unpack_from("<I", data, _LAYOUT.size)
        if crc != crc32c.crc32c(data[: _LAYOUT.size]):
            raise NotADriveFileError("its superblock is damaged; delete the file or choose another path")
        return cls(length, bool(flags & _TEMPORARY), bool(flags & _IN_USE), uuid.UUID(bytes=identity))
