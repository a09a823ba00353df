"""The cases behind the golden vectors: requests and keys, made of integers from a counter, so alike everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearkv.contract import BLOCK_TOKENS, EMPTY, encode_query, encode_segment, pack_blocks, row_width, seal_blocks
from nearkv_drivers.wire import Query, Segment

HEADS = ((32, 1), (48, 2), (64, 3), (64, 4), (80, 5), (96, 6), (112, 7), (128, 4), (128, 16), (144, 2), (192, 9),
         (240, 12), (256, 1))  # fmt: skip
"""Head size and group of the plain cases."""


class Counter:
    """SplitMix64: the same numbers in any language and library version."""

    def __init__(self, name: str) -> None:
        self.state = int.from_bytes(name.encode()[:8].ljust(8, b"\0"), "little") ^ (len(name) << 56)
        for byte in name.encode():
            self.state = (self.state * 1099511628211 ^ byte) & (2**64 - 1)

    def words(self, *shape: int) -> npt.NDArray[np.uint64]:
        """The next uint64 values."""
        count = int(np.prod(shape))
        with np.errstate(over="ignore"):
            z = np.uint64(self.state) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            self.state = int(z[-1])
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))).reshape(shape)

    def integers(self, low: int, high: int, *shape: int) -> npt.NDArray[np.int64]:
        """Integers in low..high, both included."""
        return (self.words(*shape) % np.uint64(high - low + 1)).astype(np.int64) + low

    def bell(self, *shape: int) -> npt.NDArray[np.float32]:
        """Roughly normal values of variance 1, exact in float32: sums of 12 uniforms in 1/4096."""
        return ((self.integers(0, 4095, 12, *shape).sum(axis=0) - 6 * 4095) / 4096).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """A request for the kernel."""

    name: str
    about: str
    query: Query
    segments: list[Segment]
    k: int = 4
    initial_total: npt.NDArray[np.int32] | None = None


def keys_of(counter: Counter, tokens: int, head_dim: int) -> npt.NDArray[np.float32]:
    """Keys with the traits that matter: a common offset, a few loud channels, tokens of very different size."""
    keys = counter.bell(tokens, head_dim) + 2 * counter.bell(head_dim)
    keys[:, :: max(head_dim // 4, 1)] *= 6
    return np.asarray(keys * (1 + counter.integers(0, 7, tokens, 1) / 4), np.float32)


def raw_segment(keys: npt.NDArray[np.int8], m: npt.NDArray[np.uint8], bits: int) -> Segment:
    """A segment of given quantised keys [tokens, d] and multipliers [tokens]."""
    blocks = pack_blocks(keys, m, bits, stream=7)
    return Segment(blocks, np.zeros(keys.shape[1], np.float32), 1.0, bits, keys.shape[1], len(keys))


def raw_query(q: npt.NDArray[np.int8], c: int, r: int, b: list[int], segments: int = 1) -> Query:
    """A query with the same c and r for every head."""
    group = len(q)
    return Query(
        q,
        np.full((segments, group), c, np.uint16),
        np.full((segments, group), r, np.uint8),
        np.tile(np.array(b, np.int32), (segments, 1)),
    )


def plain(bits: int) -> Iterator[Case]:
    """Encoded keys and queries of every head size class and several group sizes."""
    for head_dim, group in HEADS:
        name = f"int{bits}_d{head_dim}_g{group}"
        counter = Counter(name)
        tokens = BLOCK_TOKENS * (1 if row_width(head_dim) > 128 else 2) - 5
        segment = encode_segment(keys_of(counter, tokens, head_dim), bits, stream=group, first_block=head_dim)
        queries = counter.bell(group, head_dim) * 2
        yield Case(name, "plain", encode_query(queries, segment, head_dim**-0.5), [segment], k=2)


def encoded_specials(bits: int) -> Iterator[Case]:
    """Cases about requests: several segments, T0, k, ties, damage."""
    counter = Counter(f"encoded{bits}")
    segments = [encode_segment(keys_of(counter, 32 * n, 64) + 3 * n, bits, stream=1) for n in (1, 2, 3)]
    queries = counter.bell(4, 64) * 2
    query = encode_query(queries, segments, 0.125)
    tag = f"int{bits}"
    yield Case(f"{tag}_segments", "three segments with different centres and scales", query, segments)
    yield Case(f"{tag}_k_large", "k above the number of blocks", query, segments, k=2048)
    yield Case(f"{tag}_k_one", "k = 1", query, segments, k=1)
    t0 = np.array([EMPTY, -5000, 0, 3000], np.int32)
    yield Case(f"{tag}_t0", "T0 empty, below, within and above the blocks' mass", query, segments, initial_total=t0)
    block = segments[2].blocks[:1]
    twins = [_with_blocks(segments[0], np.concatenate([block, segments[0].blocks, block, block, block]))]
    yield Case(f"{tag}_ties", "equal blocks: the lower position first", encode_query(queries, twins, 0.125), twins, k=3)
    damaged = np.concatenate([s.blocks for s in segments])
    damaged[1, 64] ^= 1  # payload
    damaged[2, 3] ^= 128  # a multiplier
    damaged[3, 60] ^= 16  # the CRC itself
    damaged[4, 50] ^= 2  # a byte that must be zero
    yield _one(f"{tag}_bad_crc", "a flipped bit in payload, multiplier, CRC and padding", queries, segments[0], damaged)
    headers = np.concatenate([s.blocks for s in segments])
    headers[1, 32], headers[4, 32] = 12 - bits, 0  # format
    headers[2, 33], headers[5, 33] = 4, 0  # D / 32
    seal_blocks(headers)
    yield _one(f"{tag}_bad_header", "format or width that disagrees, under a good CRC", queries, segments[0], headers)
    zero = encode_query(np.zeros((2, 64), np.float32), segments, 0.125)
    yield Case(f"{tag}_zero_query", "a query of zeros: c = 0 and r = 63", zero, segments)


def _with_blocks(segment: Segment, blocks: npt.NDArray[np.uint8]) -> Segment:
    return Segment(blocks, segment.centre, segment.scale, segment.bits, segment.head_dim, 32 * len(blocks))


def _one(name: str, about: str, queries: npt.NDArray[np.float32], like: Segment, blocks: npt.NDArray[np.uint8]) -> Case:
    segment = _with_blocks(like, blocks)
    return Case(name, about, encode_query(queries, segment, 0.125), [segment], k=8)


def integer_specials(bits: int) -> Iterator[Case]:
    """Cases about the arithmetic, on raw integers: saturation, clamps, shifts, empty tokens, the lowest payload."""
    counter, tag = Counter(f"integer{bits}"), f"int{bits}"
    top, lowest = (127, -128) if bits == 8 else (7, -8)
    keys = counter.integers(lowest, top, 128, 32).astype(np.int8)
    m = counter.integers(1, 255, 128).astype(np.uint8)
    q = counter.integers(-127, 127, 3, 32).astype(np.int8)
    segment = raw_segment(keys, m, bits)
    high, low = 2**31 - 1, -(2**31)
    yield Case(f"{tag}_saturate", "x saturates both ways within blocks", raw_query(q, 65535, 0, [0, 7, -7]), [segment])
    same = raw_segment(np.full((64, 32), top, np.int8), np.full(64, 255, np.uint8), bits)
    flat = np.stack([np.full(32, 127), np.full(32, -127), np.full(32, 0)]).astype(np.int8)
    yield Case(f"{tag}_clamp", "L beyond int32 above and below", raw_query(flat, 65535, 0, [high, low, low]), [same])
    lone = np.zeros(64, np.uint8)
    lone[5] = 255
    one = raw_segment(np.full((64, 32), top, np.int8), lone, bits)
    yield Case(f"{tag}_clamp_one", "one token at -2^31: L = -2^31 + 1, and an empty block",
               raw_query(flat, 65535, 0, [high, low, low]), [one])  # fmt: skip
    for shift in (1, 15, 31, 32, 47, 63):
        yield Case(f"{tag}_shift{shift}", f"r = {shift}", raw_query(q, 40000, shift, [0, 100, -100]), [segment])
    spread = raw_query(q, 50000, 25 if bits == 8 else 21, [0, 1 << 20, -(1 << 20)])
    yield Case(f"{tag}_spread", "exponents further apart than 31 and 40", spread, [segment])
    extreme = np.full((96, 32), lowest, np.int8)
    extreme[32:64] = top
    extreme[64:] = np.where(counter.integers(0, 1, 32, 32), lowest, top)
    ends = np.stack([np.full(32, -128), np.full(32, 127), np.full(32, -127)]).astype(np.int8)
    most = raw_segment(extreme, np.full(96, 255, np.uint8), bits)
    yield Case(f"{tag}_lowest", f"payload {lowest} and q = -128", raw_query(ends, 33000, 22, [0, 0, 0]), [most])
    holes = np.where(counter.integers(0, 2, 160) == 0, m.max(), 0).astype(np.uint8)
    holes[32:64] = 0
    holes[128:] = 0
    gaps = raw_segment(counter.integers(lowest, top, 160, 32).astype(np.int8), holes, bits)
    yield Case(f"{tag}_empty", "tokens and whole blocks that do not exist", raw_query(q, 40000, 20, [0, 9, 99]),
               [gaps], k=8)  # fmt: skip
    nothing = raw_segment(keys[:64], np.zeros(64, np.uint8), bits)
    t0 = np.array([EMPTY, 77, -77], np.int32)
    yield Case(f"{tag}_all_empty", "no token at all, with T0 and without", raw_query(q, 40000, 20, [0, 0, 0]),
               [nothing],
               initial_total=t0)  # fmt: skip


def score_cases() -> Iterator[Case]:
    """Every score case."""
    for bits in (8, 4):
        yield from plain(bits)
        yield from encoded_specials(bits)
        yield from integer_specials(bits)


def encode_cases() -> Iterator[tuple[str, str, int, npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
    """Name, what it is about, bits, keys and queries of every encode case."""
    for bits in (8, 4):
        for head_dim, group, tokens in ((32, 1, 64), (48, 3, 33), (64, 4, 32), (80, 2, 15), (128, 8, 12), (256, 2, 7)):
            counter = Counter(f"encode{bits}_{head_dim}")
            yield (f"int{bits}_d{head_dim}", "plain", bits, keys_of(counter, tokens, head_dim),
                   counter.bell(group, head_dim))  # fmt: skip
        counter = Counter(f"zeros{bits}")
        yield f"int{bits}_zeros", "keys of zeros", bits, np.zeros((40, 32), np.float32), counter.bell(2, 32)
        keys = keys_of(counter, 36, 32)
        keys[10:20] = keys.astype(np.float64).mean(axis=0)
        keys[30] *= 300
        yield f"int{bits}_outlier", "one loud token and some at the centre", bits, keys, counter.bell(2, 32)
