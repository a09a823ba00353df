"""Queries to integers (contract §4): int8 heads, and per segment a mantissa, a shift and a bias."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearkv.contract.rotate import rotate
from nearkv_drivers.wire import FRACTION_BITS, MAX_GROUP, ContractError, Query, Segment, row_width

MAX_SHIFT = 63


def encode_query(queries: npt.ArrayLike, segments: Segment | Sequence[Segment], attention_scale: float) -> Query:
    """Quantise ``queries`` (float [G, d]) for scoring ``segments`` with softmax scale ``attention_scale``.

    Raises ContractError for G outside 1..16, another head size than the segments', a non-finite query, or a scale or
    bias that the kernel's fixed point cannot hold.
    """
    rows = np.asarray(queries, np.float64)
    parts = [segments] if isinstance(segments, Segment) else list(segments)
    if rows.ndim != 2 or not 1 <= rows.shape[0] <= MAX_GROUP:
        raise ContractError(f"queries must be [1..{MAX_GROUP} heads, head size], not {list(rows.shape)}")
    if not np.isfinite(rows).all():
        raise ContractError("a query is not finite (NaN or infinity)")
    group, head_dim = rows.shape
    rotated = rotate(rows)
    scale = np.abs(rotated).max(axis=1) / 127
    q = np.zeros((group, row_width(head_dim)), np.int8)
    q[:, :head_dim] = np.rint(rotated / np.where(scale > 0, scale, 1.0)[:, None])

    c = np.zeros((len(parts), group), np.uint16)
    r = np.zeros((len(parts), group), np.uint8)
    b = np.zeros((len(parts), group), np.int32)
    unit = attention_scale * math.log2(math.e) * 2**FRACTION_BITS
    for i, segment in enumerate(parts):
        if segment.head_dim != head_dim:
            raise ContractError(f"queries of head size {head_dim} cannot score keys of head size {segment.head_dim}")
        for h in range(group):
            c[i, h], r[i, h] = fixed_point(float(scale[h]) * segment.scale * unit)
        bias = np.rint((rows @ segment.centre.astype(np.float64)) * unit)
        if (np.abs(bias) > 2**31 - 1).any():
            raise ContractError("the bias (query times segment centre) is out of range of int32")
        b[i] = bias
    return Query(q, c, r, b)


def fixed_point(value: float) -> tuple[int, int]:
    """Mantissa c in [2^15, 2^16) and right shift r in 0..63 with c * 2^-r closest to ``value`` (>= 0).

    c = 0 where ``value`` lies below the range. Raises ContractError above it (2^16 and more), or if negative.
    """
    if not 0 <= value < math.inf:
        raise ContractError(f"the score scale {value} is negative or not finite")
    fraction, exponent = math.frexp(value)  # value = fraction * 2^exponent, fraction in [1/2, 1)
    mantissa, shift = round(fraction * 2**16), 16 - exponent
    if mantissa == 2**16:
        mantissa, shift = 2**15, shift - 1
    if value == 0 or shift > MAX_SHIFT:
        return 0, MAX_SHIFT
    if shift < 0:
        raise ContractError(f"the score scale {value:g} is out of range (at most 65,535): scale the queries down")
    return mantissa, shift
