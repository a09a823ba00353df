"""Keys to score blocks (contract §2 and §3): centre, rotate, quantise, pack, seal with a CRC."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.contract.crc import crc32c
from nearkv.contract.rotate import rotate
from nearkv_drivers.wire import (
    BLOCK_TOKENS,
    HEADER_BYTES,
    ContractError,
    Segment,
    block_bytes,
    row_width,
)

QMAX = {8: 127, 4: 7}
"""Largest magnitude of a quantised key value, by bits."""

INT4_CLIPS = tuple(step / 20 for step in range(20, 11, -1))
"""Clip ratios c tried for INT4 token scales, largest first: 1.00, 0.95, ... 0.60."""


def encode_segment(
    keys: npt.ArrayLike,
    bits: int,
    *,
    stream: int = 0,
    first_block: int = 0,
    adopt: Segment | None = None,
) -> Segment:
    """Encode ``keys`` (float32 [tokens, d], tokens >= 1) as one segment of score blocks.

    ``stream`` and ``first_block`` go into the headers. ``adopt`` reuses an earlier segment's centre and scale, which
    is allowed while every token scale fits 255 S; check with :func:`can_adopt`.

    Raises ContractError for another number of bits, a head size that is not a multiple of 16 from 32 to 256, no
    tokens, a non-finite key (its token is named), or an ``adopt`` whose scale is too small.
    """
    rows = _checked(keys)
    block_bytes(row_width(rows.shape[1]), bits)  # refuses other numbers of bits
    centre, rotated, token_scale = _centre_and_scale(rows, bits, adopt)
    if adopt is not None:
        if adopt.bits != bits:
            raise ContractError(f"a segment of INT{bits} cannot adopt the scale of a segment of INT{adopt.bits}")
        scale = adopt.scale
        if not (token_scale <= 255 * scale).all():
            token = int(np.argmax(token_scale > 255 * scale))
            raise ContractError(f"token {token} exceeds the adopted segment's scale: start a segment of its own")
    else:
        peak = float(token_scale.max())
        scale = peak / 255 if peak > 0 else 1.0
    ratio = token_scale / scale
    multiplier = np.clip(np.ceil(ratio) if bits == 8 else np.rint(ratio), 1, 255)
    qmax = QMAX[bits]
    quantised = np.clip(np.rint(rotated / (multiplier * scale)[:, None]), -qmax, qmax).astype(np.int8)
    blocks = pack_blocks(quantised, multiplier.astype(np.uint8), bits, stream=stream, first_block=first_block)
    return Segment(blocks, centre, scale, bits, rows.shape[1], rows.shape[0])


def can_adopt(keys: npt.ArrayLike, earlier: Segment) -> bool:
    """Whether ``keys`` [tokens, d] may be encoded against ``earlier``'s centre and scale (s_t <= 255 S)."""
    _, _, token_scale = _centre_and_scale(_checked(keys), earlier.bits, earlier)
    return bool((token_scale <= 255 * earlier.scale).all())


def _checked(keys: npt.ArrayLike) -> npt.NDArray[np.float32]:
    rows = np.asarray(keys, np.float32)
    if rows.ndim != 2 or not rows.shape[0]:
        raise ContractError(f"keys must be [tokens, head size] with at least one token, not {list(rows.shape)}")
    row_width(rows.shape[1])
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise ContractError(f"the key of token {int(np.argmin(finite))} is not finite (NaN or infinity)")
    return rows


def _centre_and_scale(
    rows: npt.NDArray[np.float32], bits: int, adopt: Segment | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Centre float32 [d], rotated residuals float64 [tokens, d] and token scales s_t float64 [tokens]."""
    centre = rows.mean(axis=0, dtype=np.float64).astype(np.float32) if adopt is None else adopt.centre
    rotated = rotate(rows.astype(np.float64) - centre.astype(np.float64))
    peak = np.abs(rotated).max(axis=1)
    return centre, rotated, peak / 127 if bits == 8 else _int4_token_scale(rotated, peak)


def _int4_token_scale(rotated: npt.NDArray[np.float64], peak: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The clipped scale of least squared error per token; ties go to the larger clip ratio."""
    best_scale = np.zeros_like(peak)
    best_error = np.full_like(peak, np.inf)
    for clip in INT4_CLIPS:
        scale = clip * peak / 7
        step = np.where(scale > 0, scale, 1.0)[:, None]
        error = ((rotated - np.clip(np.rint(rotated / step), -7, 7) * step) ** 2).sum(axis=1)
        better = error < best_error
        best_scale = np.where(better, scale, best_scale)
        best_error = np.where(better, error, best_error)
    return best_scale


def pack_blocks(
    quantised: npt.NDArray[np.int8],
    multiplier: npt.NDArray[np.uint8],
    bits: int,
    *,
    stream: int = 0,
    first_block: int = 0,
) -> npt.NDArray[np.uint8]:
    """Lay out quantised keys (int8 [tokens, d]) and multipliers m_t (uint8 [tokens]) as score blocks.

    Returns uint8 [n, block bytes]; tokens past the end of the last block get m_t = 0. A multiplier of 0 marks a
    token that does not exist.
    """
    tokens, head_dim = quantised.shape
    width = row_width(head_dim)
    count = -(-tokens // BLOCK_TOKENS)
    rows = np.zeros((count * BLOCK_TOKENS, width), np.int8)
    rows[:tokens, :head_dim] = quantised
    m = np.zeros(count * BLOCK_TOKENS, np.uint8)
    m[:tokens] = multiplier
    m = m.reshape(count, BLOCK_TOKENS)

    blocks = np.zeros((count, block_bytes(width, bits)), np.uint8)
    blocks[:, 0:32] = m
    blocks[:, 32] = bits
    blocks[:, 33] = width // 32
    blocks[:, 34:36] = (m != 0).sum(axis=1).astype("<u2")[:, None].view(np.uint8)
    blocks[:, 36:40] = (np.arange(count) + first_block).astype("<u4")[:, None].view(np.uint8)
    blocks[:, 40:48] = np.full(count, stream, "<u8")[:, None].view(np.uint8)
    payload = rows.view(np.uint8).reshape(count, -1)
    blocks[:, HEADER_BYTES:] = payload if bits == 8 else (payload[:, 0::2] & 15) | (payload[:, 1::2] << 4)
    return seal_blocks(blocks)


def seal_blocks(blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Write into each block's header (in place) the CRC-32C of bytes 0..59 and the payload; returns ``blocks``."""
    for block in blocks:
        block[60:64] = np.frombuffer(block_crc(block).to_bytes(4, "little"), np.uint8)
    return blocks


def block_crc(block: npt.NDArray[np.uint8]) -> int:
    """CRC-32C that the header of ``block`` (uint8 [block bytes]) should carry."""
    return crc32c(block[HEADER_BYTES:].tobytes(), crc32c(block[:60].tobytes()))
