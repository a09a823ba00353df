"""K and V in 8 or 4 bits per value, in native code, by host address: how cold blocks lie on the drive.

A KV block is 64 rows (K1 V1 K2 V2 ...) of d values of ``dtype`` ("float32", "float16" or "bfloat16"). A row is rotated
as keys are in the score contract, so that no channel dominates, and divided by a scale of its own (bfloat16, rounded
up). Codes are two's complement, rows follow each other without gaps, 4-bit codes low nibble first. 8-bit codes cut no
value off; of 4-bit ones the scale is the clip (1, 0.9, 0.8 or 0.7 of the largest value) of least squared error. A
decoded row is within half a step of every rotated value that was not cut off.

The caller keeps the memory behind every address alive and unchanged until the call returns; an address that is not
readable ends the process. Everything releases the GIL. ``isa`` forces one of ``native.isas()``; all of them write the
same bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv_drivers.extension import kernel as _kernel
from nearkv_drivers.wire import BLOCK_TOKENS, ContractError

ROWS = 2 * BLOCK_TOKENS
"""Rows of a block."""

SCALE_BYTES = 2
"""Bytes of a row's scale."""

LIMIT = 2.0**112
"""Values of this size and above have no codes: their rotation could leave float32's range."""


def code_bytes(head_dim: int, bits: int) -> int:
    """Bytes of the codes of one block."""
    return ROWS * head_dim * bits // 8


def encode(
    sources: npt.NDArray[np.uint64],
    codes: npt.NDArray[np.uint8],
    head_dim: int,
    bits: int,
    dtype: str,
    *,
    isa: str = "",
) -> tuple[npt.NDArray[np.uint16], int | None]:
    """Encode the blocks at ``sources`` (uint64 [n]) into the first bytes of each row of ``codes`` (uint8 [n, size]).

    Returns the scales (bfloat16 as uint16 [n, 64]) and the number of the first row, over all blocks, with a value that
    is not finite or not below :data:`LIMIT`; None where there is none. Raises ContractError for shapes, addresses and
    settings that cannot be.
    """
    _check(sources, "sources")
    if codes.ndim != 2 or codes.dtype != np.uint8:
        raise ContractError(f"codes must be uint8 [blocks, bytes], not {codes.dtype} {list(codes.shape)}")
    scales, bad = _kernel.encode_blocks(np.ascontiguousarray(sources), codes, head_dim, bits, dtype, isa)
    return scales, None if bad == ROWS * len(codes) else bad


def decode(
    codes: npt.NDArray[np.uint64],
    scales: npt.NDArray[np.uint16],
    targets: npt.NDArray[np.uint64],
    head_dim: int,
    bits: int,
    dtype: str,
    *,
    isa: str = "",
) -> None:
    """Decode the blocks whose codes lie at ``codes`` (uint64 [n]), with ``scales`` uint16 [n, 64], to ``targets``.

    Codes may lie inside their own target, not inside another's. Raises ContractError as :func:`encode`.
    """
    _check(codes, "codes")
    _check(targets, "targets")
    if scales.ndim != 2 or scales.dtype != np.uint16:
        raise ContractError(f"scales must be uint16 [blocks, 64], not {scales.dtype} {list(scales.shape)}")
    addresses = np.ascontiguousarray(codes), np.ascontiguousarray(targets)
    _kernel.decode_blocks(addresses[0], np.ascontiguousarray(scales), addresses[1], head_dim, bits, dtype, isa)


def _check(addresses: npt.NDArray[np.uint64], name: str) -> None:
    if addresses.ndim != 1 or addresses.dtype != np.uint64:
        raise ContractError(f"{name} must be uint64 [n] addresses, not {addresses.dtype} {list(addresses.shape)}")
