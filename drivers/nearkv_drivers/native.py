"""The score contract in native code: bit for bit what ``nearkv.contract`` computes, at memory speed.

Everything releases the GIL while it works and runs on one pool with a thread per processor. ``isa`` forces one of
:func:`isas`; by default the fastest runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearkv_drivers.extension import kernel as _kernel
from nearkv_drivers.wire import EMPTY, ContractError, Query, Scores, Segment


@dataclass(frozen=True)
class KernelRun:
    """Score blocks of one segment in memory and how a query scales against it.

    ``blocks`` is uint8 [n, block bytes], C-contiguous; ``c`` uint16, ``r`` uint8 and ``b`` int32 are [G].
    """

    blocks: npt.NDArray[np.uint8]
    c: npt.NDArray[np.uint16]
    r: npt.NDArray[np.uint8]
    b: npt.NDArray[np.int32]


@dataclass(frozen=True)
class KernelRequest:
    """One stream to score: ``q`` int8 [G, D] against ``runs``; positions count over the runs.

    ``k`` > 0 asks for the k best blocks (mode TOPK), 0 for every log-mass (mode MASS). ``initial_total`` (int32 [G])
    is T0; None for nothing.
    """

    runs: Sequence[KernelRun]
    q: npt.NDArray[np.int8]
    bits: int
    k: int = 0
    initial_total: npt.NDArray[np.int32] | None = None


@dataclass(frozen=True)
class KernelResult:
    """The answer to one request: ``total`` int32 [G], ``bad`` uint32 positions, and by mode the rest.

    MASS: ``log_mass`` int32 [G, blocks]. TOPK: ``positions`` and ``priorities``, uint32, highest first.
    """

    total: npt.NDArray[np.int32]
    bad: npt.NDArray[np.uint32]
    log_mass: npt.NDArray[np.int32] | None
    positions: npt.NDArray[np.uint32]
    priorities: npt.NDArray[np.uint32]


class KernelStart:
    """A kernel start in flight. It keeps the arrays of its requests; they must not change until it is done."""

    def __init__(self, requests: Sequence[KernelRequest], isa: str = "") -> None:
        self._start = _kernel.Start(
            [
                (
                    each.q,
                    each.bits,
                    each.k,
                    each.initial_total,
                    [(run.blocks, run.c, run.r, run.b) for run in each.runs],
                )
                for each in requests
            ],
            isa,
        )

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return self._start.done()

    def wait(self) -> list[KernelResult]:
        """Help until done; one result per request, in order."""
        return [KernelResult(*result) for result in self._start.wait()]


def isas() -> tuple[str, ...]:
    """Instruction sets that this processor can run, fastest first."""
    return _kernel.isas()


def start(requests: Sequence[KernelRequest], *, isa: str = "") -> KernelStart:
    """Begin one kernel start on all of ``requests`` and return at once.

    Raises ContractError for shapes, widths or values that the contract does not have.
    """
    return KernelStart(requests, isa)


def score(
    query: Query,
    segments: Segment | Sequence[Segment],
    initial_total: npt.ArrayLike | None = None,
    *,
    isa: str = "",
) -> Scores:
    """Log-mass of every block of ``segments`` for every head of ``query``, and the totals (mode MASS).

    ``initial_total`` (int32 [G]) is T0, the mass known in other tiers; by default nothing.
    """
    parts = [segments] if isinstance(segments, Segment) else list(segments)
    for part in parts[1:]:
        if part.bits != parts[0].bits:
            raise ContractError(f"one request cannot score INT{parts[0].bits} and INT{part.bits} segments: split it")
    runs = [
        KernelRun(np.ascontiguousarray(part.blocks), query.c[i], query.r[i], query.b[i]) for i, part in enumerate(parts)
    ]
    t0 = None if initial_total is None else np.ascontiguousarray(initial_total, np.int32)
    bits = parts[0].bits if parts else 8
    [result] = start([KernelRequest(runs, query.q, bits, initial_total=t0)], isa=isa).wait()
    assert result.log_mass is not None
    return Scores(result.log_mass, result.total, result.bad)


def top_k(scores: Scores, k: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Positions and priorities (uint32) of the ``k`` blocks of highest priority, highest first (mode TOPK).

    Ties go to the lower position; blocks without tokens are never among them. Raises ContractError for k outside
    1..2048.
    """
    return _kernel.top_k(scores.log_mass, scores.total, k)


def fold_total(log_mass: npt.NDArray[np.int32], initial: npt.ArrayLike | None = None) -> npt.NDArray[np.int32]:
    """T int32 [G]: ``log_mass`` int32 [G, n] folded in order onto ``initial`` (int32 [G], nothing by default)."""
    first = np.full(len(log_mass), EMPTY, np.int32) if initial is None else np.ascontiguousarray(initial, np.int32)
    return _kernel.fold_total(first, np.ascontiguousarray(log_mass))


def encode_segment(
    keys: npt.ArrayLike,
    bits: int,
    *,
    stream: int = 0,
    first_block: int = 0,
    adopt: Segment | None = None,
    isa: str = "",
) -> Segment:
    """Encode ``keys`` (float32 [tokens, d]) as one segment, as ``nearkv.contract.encode_segment`` does.

    Rows may lie any distance apart. Raises ContractError for what the contract refuses; a non-finite key is named by
    its token.
    """
    rows = np.asarray(keys, np.float32)
    if rows.ndim != 2:
        raise ContractError(f"keys must be [tokens, head size] with at least one token, not {list(rows.shape)}")
    adopted = None if adopt is None else [adopt]
    [segment] = encode_segments(rows[None], bits, streams=[stream], first_blocks=[first_block], adopt=adopted, isa=isa)
    return segment


def encode_segments(
    keys: npt.NDArray[np.float32],
    bits: int,
    *,
    streams: npt.ArrayLike,
    first_blocks: npt.ArrayLike,
    adopt: Sequence[Segment] | None = None,
    isa: str = "",
) -> list[Segment]:
    """Encode ``keys`` (float32 [segments, tokens, d], last axis contiguous) in parallel, one segment each.

    ``streams`` and ``first_blocks`` ([segments]) go into the headers; ``adopt`` holds a segment for each whose centre
    and scale are reused. The segments share one buffer. Raises ContractError as :func:`encode_segment`.
    """
    rows = _rows(keys)
    centres, scales = (None, None) if adopt is None else _adopted(adopt, bits)
    blocks, centre, scale = _kernel.encode_segments(
        rows, bits, np.asarray(streams, np.uint64), np.asarray(first_blocks, np.uint32), centres, scales, isa
    )
    _, tokens, head_dim = rows.shape
    return [Segment(blocks[i], centre[i], float(scale[i]), bits, head_dim, tokens) for i in range(len(rows))]


def can_adopt(keys: npt.ArrayLike, earlier: Segment, *, isa: str = "") -> bool:
    """Whether ``keys`` [tokens, d] may be encoded against ``earlier``'s centre and scale (s_t <= 255 S)."""
    return bool(can_adopt_all(np.asarray(keys, np.float32)[None], [earlier], isa=isa)[0])


def can_adopt_all(keys: npt.NDArray[np.float32], earlier: Sequence[Segment], *, isa: str = "") -> npt.NDArray[np.bool_]:
    """:func:`can_adopt` for ``keys`` [segments, tokens, d] and an earlier segment for each: bool [segments]."""
    if not earlier:
        return np.empty(0, np.bool_)
    centres, scales = _adopted(earlier, earlier[0].bits)
    return _kernel.can_adopt(_rows(keys), earlier[0].bits, centres, scales, isa).astype(np.bool_)


def encode_query(queries: npt.ArrayLike, segments: Segment | Sequence[Segment], attention_scale: float) -> Query:
    """Quantise ``queries`` (float32 [G, d]) for ``segments``, as ``nearkv.contract.encode_query`` does."""
    rows = np.ascontiguousarray(queries, np.float32)
    parts = [segments] if isinstance(segments, Segment) else list(segments)
    if rows.ndim != 2:
        raise ContractError(f"queries must be [1..16 heads, head size], not {list(rows.shape)}")
    for part in parts:
        if part.head_dim != rows.shape[1]:
            raise ContractError(f"queries of head size {rows.shape[1]} cannot score keys of head size {part.head_dim}")
    centres = np.stack([part.centre for part in parts]) if parts else np.empty((0, rows.shape[1]), np.float32)
    scales = np.array([part.scale for part in parts], np.float64)
    q, c, r, b = encode_queries(rows[None], centres[None], scales[None], attention_scale)
    return Query(q[0], c[0], r[0], b[0])


def encode_queries(
    queries: npt.NDArray[np.float32],
    centres: npt.NDArray[np.float32],
    scales: npt.NDArray[np.float64],
    attention_scale: float,
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.uint16], npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Quantise the queries of many streams at once: float32 [R, G, d] against S segments per stream.

    ``centres`` is float32 [R, S, d] and ``scales`` float64 [R, S]. Returns q int8 [R, G, D], and c uint16, r uint8
    and b int32, each [R, S, G]. A stream with fewer segments repeats one and ignores its scales. Raises ContractError
    for a non-finite query or a scale or bias that the kernel's fixed point cannot hold.
    """
    return _kernel.encode_queries(queries, centres, scales, attention_scale)


def crc32c(data: npt.NDArray[np.uint8], seed: int = 0, *, isa: str = "") -> int:
    """CRC-32C of ``data`` (uint8, 1-d) continued from ``seed``, the CRC of what came before."""
    return _kernel.crc32c(data, seed, isa)


def crc32c_rows(rows: npt.NDArray[np.uint8], *, isa: str = "") -> npt.NDArray[np.uint32]:
    """CRC-32C of every row of ``rows`` (uint8 [n, bytes]; rows may lie any distance apart): uint32 [n]."""
    return _kernel.crc32c_rows(rows, isa)


def crc32c_at(addresses: npt.NDArray[np.uint64], length: int) -> npt.NDArray[np.uint32]:
    """CRC-32C of the ``length`` bytes at each of ``addresses`` (uint64 [n], host memory): uint32 [n].

    The memory must be readable: an address that is not ends the process. Raises ContractError for address 0.
    """
    return _kernel.crc32c_at(addresses, length)


def _rows(keys: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    rows = np.asarray(keys, np.float32)
    if rows.ndim != 3:
        raise ContractError(f"keys must be [segments, tokens, head size], not {list(rows.shape)}")
    return rows if rows.shape[2] < 2 or rows.strides[2] == rows.itemsize else np.ascontiguousarray(rows)


def _adopted(segments: Sequence[Segment], bits: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Centres [segments, d] and scales [segments] to adopt."""
    for each in segments:
        if each.bits != bits:
            raise ContractError(f"a segment of INT{bits} cannot adopt the scale of a segment of INT{each.bits}")
    return np.stack([each.centre for each in segments]), np.array([each.scale for each in segments], np.float64)
