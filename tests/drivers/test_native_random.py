"""Random requests on raw integers: the native kernel equals the golden model bit for bit."""

import numpy as np
import pytest

from nearkv.contract import EMPTY, fold_total, pack_blocks, score, top_k
from nearkv_drivers import native
from nearkv_drivers.native import KernelRequest, KernelRun
from nearkv_drivers.wire import Query, Scores, Segment

CASES_PER_WIDTH = {32: 1500, 64: 800, 128: 200, 256: 50}
"""Cases per instruction set and number of bits; small rows, which the golden model scores fast, carry most."""

CASES = [(bits, width) for bits in (4, 8) for width in CASES_PER_WIDTH]


def random_segment(rng: np.random.Generator, bits: int, width: int) -> Segment:
    tokens = int(rng.integers(1, 97))
    low, high = (-128, 127) if bits == 8 else (-8, 7)
    keys = rng.integers(low, high + 1, (tokens, width)).astype(np.int8)
    if rng.random() < 0.1:
        keys[:] = rng.choice([low, high])
    multiplier = rng.integers(0 if rng.random() < 0.5 else 1, rng.choice([2, 16, 256]), tokens).astype(np.uint8)
    blocks = pack_blocks(keys, multiplier, bits, stream=int(rng.integers(2**63)), first_block=int(rng.integers(2**20)))
    if rng.random() < 0.2:
        blocks[rng.integers(len(blocks)), rng.integers(blocks.shape[1])] ^= 1 << rng.integers(8)
    return Segment(blocks, np.zeros(width, np.float32), 1.0, bits, width, tokens)


def random_case(
    rng: np.random.Generator, bits: int, width: int
) -> tuple[Query, list[Segment], np.ndarray[tuple[int], np.dtype[np.int32]]]:
    segments = [random_segment(rng, bits, width) for _ in range(rng.integers(1, 4))]
    group = int(rng.integers(1, 17))
    shape = (len(segments), group)
    q = rng.integers(-128, 128, (group, width)).astype(np.int8)
    span = 1 << int(rng.integers(1, 32))
    query = Query(
        q,
        rng.integers(0, 1 << 16, shape).astype(np.uint16),
        rng.integers(*((8, 30) if rng.random() < 0.7 else (0, 64)), shape).astype(np.uint8),
        rng.integers(-span, span, shape).astype(np.int32),
    )
    t0 = np.where(rng.random(group) < 0.5, EMPTY, rng.integers(-(2**31), 2**31, group)).astype(np.int32)
    return query, segments, t0


def requests_of(query: Query, segments: list[Segment], t0: np.ndarray, k: int) -> KernelRequest:
    runs = [KernelRun(s.blocks, query.c[i], query.r[i], query.b[i]) for i, s in enumerate(segments)]
    return KernelRequest(runs, query.q, segments[0].bits, k, t0)


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize(("bits", "width"), CASES)
def test_one_start_of_many_random_requests(bits: int, width: int, isa: str) -> None:
    rng = np.random.default_rng(bits * width)
    cases = [random_case(rng, bits, width) for _ in range(CASES_PER_WIDTH[width])]
    best = [int(rng.integers(1, 6)) for _ in cases]
    mass = native.start([requests_of(*case, 0) for case in cases], isa=isa)
    topk = native.start([requests_of(*case, k) for case, k in zip(cases, best, strict=True)], isa=isa)
    for (query, segments, t0), k, got, chosen in zip(cases, best, mass.wait(), topk.wait(), strict=True):
        want = score(query, segments, t0)
        positions, priorities = top_k(want, k)
        np.testing.assert_array_equal(got.log_mass, want.log_mass)
        for result in (got, chosen):
            np.testing.assert_array_equal(result.total, want.total)
            np.testing.assert_array_equal(result.bad, want.bad)
        np.testing.assert_array_equal(chosen.positions, positions)
        np.testing.assert_array_equal(chosen.priorities, priorities)


def test_totals_and_best_blocks_of_given_masses() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        group, blocks = int(rng.integers(1, 17)), int(rng.integers(0, 200))
        span = 1 << int(rng.integers(1, 32))
        mass = rng.integers(-span, span, (group, blocks)).astype(np.int32)
        mass[rng.random(mass.shape) < 0.1] = EMPTY
        t0 = np.where(rng.random(group) < 0.5, EMPTY, rng.integers(-span, span, group)).astype(np.int32)
        total = native.fold_total(mass, t0)
        np.testing.assert_array_equal(total, [fold_total(int(t0[h]), mass[h]) for h in range(group)])
        scores, k = Scores(mass, total), int(rng.integers(1, 2049))
        for got, want in zip(native.top_k(scores, k), top_k(scores, k), strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_stream_of_many_pieces_equals_its_parts() -> None:
    """Far more blocks than one task takes: pieces finish out of order, the fold must not."""
    rng = np.random.default_rng(4)
    keys = rng.integers(-128, 128, (32 * 50, 32)).astype(np.int8)
    blocks = pack_blocks(keys, rng.integers(1, 256, len(keys)).astype(np.uint8), 8)
    many = np.ascontiguousarray(np.tile(blocks, (60, 1)))
    many = many[rng.permutation(len(many))]
    query = Query(
        rng.integers(-128, 128, (5, 32)).astype(np.int8),
        np.full((1, 5), 50000, np.uint16),
        np.full((1, 5), 24, np.uint8),
        np.zeros((1, 5), np.int32),
    )
    segment = Segment(many, np.zeros(32, np.float32), 1.0, 8, 32, 32 * len(many))
    want = score(query, segment)
    for _ in range(20):
        got = native.score(query, segment)
        np.testing.assert_array_equal(got.log_mass, want.log_mass)
        np.testing.assert_array_equal(got.total, want.total)
