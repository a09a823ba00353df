"""Decode attention in native code over KV where it lies, by host address: no gather copy, any thread count.

A KV block is [32 tokens, 2 (K, V), d] of ``dtype`` ("float32", "float16" or "bfloat16"), interleaved per token, and
starts at a multiple of 4,096 bytes; a tail is [tokens, 2, d] in the same layout, anywhere. S = streams, G = query heads
per stream, d = head size. The caller keeps the memory behind every address alive and unchanged until the call returns;
an address that is not readable ends the process. Everything releases the GIL. ``isa`` forces one of ``native.isas()``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv_drivers.extension import kernel as _kernel
from nearkv_drivers.wire import ContractError


def attend(
    queries: npt.NDArray[np.float32],
    blocks: npt.NDArray[np.uint64],
    tails: npt.NDArray[np.uint64],
    tail_tokens: npt.NDArray[np.int64],
    dtype: str,
    scale: float,
    *,
    isa: str = "",
) -> npt.NDArray[np.float32]:
    """Softmax attention of each stream's queries over its blocks and its tail: float32 [S, G, d].

    ``queries`` is float32 [S, G, d] and ``scale`` what scores are multiplied by; ``blocks`` uint64 [S, k] holds block
    addresses, 0 for none; ``tails`` uint64 [S] and ``tail_tokens`` int64 [S] the newest tokens. Sums in float32.
    Raises ContractError for shapes or addresses that cannot be, and for a stream without any token.
    """
    _check(queries, tails, tail_tokens)
    if blocks.ndim != 2 or blocks.dtype != np.uint64:
        raise ContractError(f"blocks must be uint64 [streams, k] addresses, not {blocks.dtype} {list(blocks.shape)}")
    return _kernel.attend(
        np.ascontiguousarray(queries), np.ascontiguousarray(blocks), tails, tail_tokens, dtype, scale, isa
    )


def tail_mass(
    queries: npt.NDArray[np.float32],
    tails: npt.NDArray[np.uint64],
    tail_tokens: npt.NDArray[np.int64],
    dtype: str,
    scale: float,
    *,
    isa: str = "",
) -> npt.NDArray[np.int32]:
    """Log-mass of each tail for each query, in the score contract's units (log2, 8 fraction bits): int32 [S, G].

    Arguments as for :func:`attend`; a tail without tokens is EMPTY. Raises ContractError as it does.
    """
    _check(queries, tails, tail_tokens)
    return _kernel.tail_mass(np.ascontiguousarray(queries), tails, tail_tokens, dtype, scale, isa)


def copy_blocks(sources: npt.NDArray[np.uint64], destinations: npt.NDArray[np.uint64], length: int) -> None:
    """Copy ``length`` bytes from each of ``sources`` (uint64 [n] addresses) to its place in ``destinations``.

    No destination may overlap another or any source. Raises ContractError for lists that differ in length or hold 0.
    """
    for name, addresses in (("sources", sources), ("destinations", destinations)):
        if addresses.ndim != 1 or addresses.dtype != np.uint64:
            raise ContractError(f"{name} must be uint64 [n] addresses, not {addresses.dtype} {list(addresses.shape)}")
    _kernel.copy_blocks(np.ascontiguousarray(sources), np.ascontiguousarray(destinations), length)


def _check(queries: npt.NDArray[np.float32], tails: npt.NDArray[np.uint64], tail_tokens: npt.NDArray[np.int64]) -> None:
    for name, array, kind, shape in (
        ("queries", queries, np.float32, "[streams, heads, head size]"),
        ("tails", tails, np.uint64, "[streams] addresses"),
        ("tail tokens", tail_tokens, np.int64, "[streams]"),
    ):
        if array.dtype != kind or array.ndim != (3 if array is queries else 1):
            raise ContractError(f"{name} must be {np.dtype(kind)} {shape}, not {array.dtype} {list(array.shape)}")
