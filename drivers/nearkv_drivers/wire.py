"""What crosses between the host and a device: score blocks, quantised queries, scores.

The types live in this package because every device speaks them and drivers import nothing of the host.
``nearkv.contract`` produces and consumes them; ``docs/contract.md`` is the authoritative statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

BLOCK_TOKENS = 32
"""Tokens per block (B)."""

HEADER_BYTES = 64
"""Bytes of a score block's header."""

FRACTION_BITS = 8
"""Fraction bits (F) of every score and log-mass."""

PRIORITY_UNIT = 1 << 24
"""A priority of one: the whole attention mass of one query head."""

EMPTY = -(2**31)
"""The log-mass of a block without tokens, and the total of nothing."""

LOG_MASS_MIN, LOG_MASS_MAX = EMPTY + 1, 2**31 - 1
"""Range of the log-mass of a block that has tokens, and of a total that is not nothing."""

MAX_GROUP = 16
"""Most query heads that may share a KV head (G)."""

MAX_TOP_K = 2048
"""Most blocks that one TOPK request may return."""

ROW_WIDTHS = (32, 64, 128, 256)
"""Widths D that a key row may be stored with."""


class ContractError(ValueError):
    """Input that the score contract refuses; the message names the value and the remedy."""


def row_width(head_dim: int) -> int:
    """Stored width D of a key row for head size ``head_dim`` (d, a multiple of 16 from 32 to 256)."""
    if head_dim % 16 or not ROW_WIDTHS[0] <= head_dim <= ROW_WIDTHS[-1]:
        raise ContractError(f"head size {head_dim} is not a multiple of 16 from 32 to 256")
    return next(width for width in ROW_WIDTHS if width >= head_dim)


def block_bytes(width: int, bits: int) -> int:
    """Bytes of one score block of row width ``width`` (D) at ``bits`` (4 or 8) per value."""
    if bits not in (4, 8):
        raise ContractError(f"score blocks hold 4 or 8 bits per value, not {bits}")
    return HEADER_BYTES + BLOCK_TOKENS * width * bits // 8


@dataclass(frozen=True)
class Segment:
    """A run of score blocks encoded against one centre and one scale.

    ``blocks`` is uint8 [n, block bytes], ``centre`` float32 [d], ``scale`` the segment scale S.
    """

    blocks: npt.NDArray[np.uint8]
    centre: npt.NDArray[np.float32]
    scale: float
    bits: int
    head_dim: int
    tokens: int

    @property
    def width(self) -> int:
        """Stored row width D."""
        return row_width(self.head_dim)


@dataclass(frozen=True)
class Query:
    """Quantised queries of the G heads that share a KV head, with their scales against each segment.

    ``q`` is int8 [G, D]; ``c`` uint16, ``r`` uint8 and ``b`` int32 are [segments, G].
    """

    q: npt.NDArray[np.int8]
    c: npt.NDArray[np.uint16]
    r: npt.NDArray[np.uint8]
    b: npt.NDArray[np.int32]

    @property
    def group(self) -> int:
        """Query heads G."""
        return int(self.q.shape[0])

    @property
    def width(self) -> int:
        """Row width D."""
        return int(self.q.shape[1])


@dataclass(frozen=True)
class Scores:
    """Log-masses of every block of a request.

    ``log_mass`` is int32 [G, n] and ``total`` int32 [G], in log2 units with 8 fraction bits; ``bad`` holds the
    positions (uint32) of blocks whose CRC or header did not match, which count as empty.
    """

    log_mass: npt.NDArray[np.int32]
    total: npt.NDArray[np.int32]
    bad: npt.NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
