"""CRC-32C (Castagnoli), as the score block header and the store use it."""

from __future__ import annotations

import crc32c as _library


def crc32c(data: bytes, seed: int = 0) -> int:
    """CRC-32C of ``data`` continued from ``seed`` (the CRC of what came before)."""
    return int(_library.crc32c(data, seed))
