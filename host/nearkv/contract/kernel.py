"""The kernel (contract §5 and §6), in integers only: what every other implementation must equal bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearkv.contract.encode import block_crc
from nearkv_drivers.wire import (
    BLOCK_TOKENS,
    EMPTY,
    HEADER_BYTES,
    LOG_MASS_MAX,
    LOG_MASS_MIN,
    MAX_TOP_K,
    ContractError,
    Query,
    Scores,
    Segment,
)

IntArray = npt.NDArray[np.int64]


def score(query: Query, segments: Segment | Sequence[Segment], initial_total: npt.ArrayLike | None = None) -> Scores:
    """Log-mass of every block of ``segments`` for every head of ``query``, and the totals (mode MASS).

    ``initial_total`` (int32 [G]) is T0, the mass known in other tiers; by default nothing.
    """
    parts = [segments] if isinstance(segments, Segment) else list(segments)
    masses, bad, position = [], [], 0
    for i, segment in enumerate(parts):
        m, keys, ok = unpack_blocks(segment.blocks, segment.bits, query.width)
        bad += [position + int(j) for j in np.flatnonzero(~ok)]
        position += len(ok)
        x = token_scores(query.q, keys, m, query.c[i], query.r[i], query.b[i])
        masses.append(block_log_mass(x, m != 0))
    log_mass = np.concatenate(masses, axis=1) if masses else np.zeros((query.group, 0), np.int64)
    start = np.full(query.group, EMPTY) if initial_total is None else np.asarray(initial_total, np.int64)
    total = [fold_total(int(start[h]), log_mass[h]) for h in range(query.group)]
    return Scores(log_mass.astype(np.int32), np.array(total, np.int32), np.array(bad, np.uint32))


def unpack_blocks(
    blocks: npt.NDArray[np.uint8], bits: int, width: int
) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_]]:
    """Multipliers m_t [n, 32], key values [n, 32, D] and which blocks are sound.

    A block is sound when its CRC, format and width match; one that is not has every m_t set to 0.
    """
    ok = np.array([int.from_bytes(block[60:64].tobytes(), "little") == block_crc(block) for block in blocks], bool)
    ok &= (blocks[:, 32] == bits) & (blocks[:, 33] == width // 32)
    m = np.where(ok[:, None], blocks[:, 0:32], 0).astype(np.int64)
    payload = blocks[:, HEADER_BYTES:]
    if bits == 4:  # low nibble first; (nibble ^ 8) - 8 extends the sign
        nibbles = np.stack([payload & 15, payload >> 4], axis=2).astype(np.int64)
        values = (nibbles ^ 8) - 8
    else:
        values = payload.astype(np.uint8).view(np.int8).astype(np.int64)
    return m, values.reshape(len(blocks), BLOCK_TOKENS, width), ok


def token_scores(
    q: npt.NDArray[np.int8], keys: IntArray, m: IntArray, c: npt.ArrayLike, r: npt.ArrayLike, b: npt.ArrayLike
) -> IntArray:
    """x = sat32(((dot * m_t * c_h) >> r_h) + b_h) for every head, block and token: int64 [G, n, 32]."""
    # Sums stay below 2^23, so the float64 product is exact; numpy has no fast integer product.
    flat = keys.reshape(-1, keys.shape[2]).astype(np.float64)
    dot = (q.astype(np.float64) @ flat.T).astype(np.int64).reshape(len(q), *m.shape)
    c_h, r_h, b_h = (np.asarray(v).astype(np.int64)[:, None, None] for v in (c, r, b))
    return np.asarray(np.clip(((dot * m[None] * c_h) >> r_h) + b_h, -(2**31), 2**31 - 1), np.int64)


def block_log_mass(x: IntArray, exists: npt.NDArray[np.bool_]) -> IntArray:
    """L for scores ``x`` [G, n, 32] and the tokens that exist [n, 32]: int64 [G, n], EMPTY where none does."""
    integer = np.where(exists, x >> 8, np.iinfo(np.int64).min // 2)
    peak = integer.max(axis=2)
    shift = np.minimum(peak[:, :, None] - integer, 31)
    addend = np.where(exists, ((256 + (x & 255)) << 12) >> shift, 0)
    log_mass = log_of(peak, addend.sum(axis=2))
    return np.where(exists.any(axis=1), log_mass, EMPTY)


def log_of(exponent: IntArray, mantissa: IntArray) -> IntArray:
    """log2 of mantissa * 2^(exponent - 20) with 8 fraction bits (Mitchell), clamped to LOG_MASS_MIN..MAX."""
    n = np.frexp(np.maximum(mantissa, 1).astype(np.float64))[1].astype(np.int64) - 1  # top bit; exact below 2^53
    fraction = np.where(n >= 8, mantissa >> np.maximum(n - 8, 0), mantissa << np.maximum(8 - n, 0)) & 255
    return np.clip(((exponent + n - 20) << 8) + fraction, LOG_MASS_MIN, LOG_MASS_MAX)


def fold_total(initial: int, log_mass: npt.ArrayLike) -> int:
    """T: the log of the summed mass of ``initial`` and of ``log_mass`` [n], folded in order; EMPTY is nothing."""
    exponent: int | None = None
    s = 0
    for value in [initial, *np.asarray(log_mass).tolist()]:
        if value == EMPTY:
            continue
        e, a = value >> 8, (256 + (value & 255)) << 12
        if exponent is None:
            exponent = e
        elif e > exponent:
            s >>= min(e - exponent, 40)
            exponent = e
        s += a >> min(exponent - e, 40)
    if exponent is None:
        return EMPTY
    n = s.bit_length() - 1
    fraction = (s >> (n - 8) if n >= 8 else s << (8 - n)) & 255
    return min(max(((exponent + n - 20) << 8) + fraction, LOG_MASS_MIN), LOG_MASS_MAX)


def priorities(scores: Scores) -> npt.NDArray[np.uint32]:
    """Share of the attention mass of every block, summed over the heads, in units of 2^-24: uint32 [n]."""
    y = np.minimum(scores.log_mass.astype(np.int64) - scores.total.astype(np.int64)[:, None], 0)
    share = ((256 + (y & 255)) << 24) >> np.minimum(8 - (y >> 8), 40)
    share = np.where(scores.log_mass == EMPTY, 0, share)
    return np.asarray(share.sum(axis=0), np.uint32)


def top_k(scores: Scores, k: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Positions and priorities (uint32) of the ``k`` blocks of highest priority, highest first (mode TOPK).

    Ties go to the lower position; blocks without tokens are never among them, so fewer than ``k`` may come back.
    Raises ContractError for k outside 1..2048.
    """
    if not 1 <= k <= MAX_TOP_K:
        raise ContractError(f"k must lie in 1..{MAX_TOP_K}, not {k}")
    priority = priorities(scores)
    candidates = np.flatnonzero((scores.log_mass != EMPTY).any(axis=0))
    order = candidates[np.argsort(-priority[candidates].astype(np.int64), kind="stable")][:k]
    return order.astype(np.uint32), priority[order]
