"""Properties of the score contract that hold for any input."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv.contract import (
    BLOCK_TOKENS,
    EMPTY,
    ContractError,
    Query,
    Scores,
    can_adopt,
    encode_query,
    encode_segment,
    fold_total,
    pack_blocks,
    priorities,
    rotate,
    score,
    top_k,
)
from nearkv.contract.kernel import block_log_mass, unpack_blocks
from nearkv.contract.query import fixed_point
from nearkv_drivers.wire import LOG_MASS_MAX, LOG_MASS_MIN, Segment

HEAD_DIMS = st.integers(2, 16).map(lambda n: 16 * n)
SEEDS = st.integers(0, 2**32 - 1)
BITS = st.sampled_from((4, 8))
MITCHELL = 0.0861
"""Largest error of log2(1 + f) = f."""

EXAMPLES = settings(max_examples=60, deadline=None)


def holds(*strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A property that hypothesis checks, without a time limit per example."""
    return lambda check: EXAMPLES(given(*strategies)(check))


def keys_of(seed: int, tokens: int, head_dim: int) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((tokens, head_dim)) * np.exp(rng.standard_normal((tokens, 1)))
    return np.asarray(keys + 3 * rng.standard_normal(head_dim), np.float32)


def decoded(segment: Segment) -> npt.NDArray[np.float64]:
    """Rotated residuals that the payload stands for, [tokens, d]."""
    m, values, ok = unpack_blocks(segment.blocks, segment.bits, segment.width)
    assert ok.all()
    rows = (values * m[:, :, None] * segment.scale).reshape(-1, segment.width)
    return rows[: segment.tokens, : segment.head_dim]


@holds(SEEDS, HEAD_DIMS)
def test_rotation_is_orthonormal(seed: int, head_dim: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((5, head_dim))
    turned = rotate(rows)
    np.testing.assert_allclose(turned @ turned.T, rows @ rows.T, atol=1e-9 * head_dim)
    np.testing.assert_allclose(rotate(turned), rows, atol=1e-12 * head_dim)


@holds(SEEDS, HEAD_DIMS, st.integers(1, 70))
def test_int8_error_is_at_most_half_a_step(seed: int, head_dim: int, tokens: int) -> None:
    keys = keys_of(seed, tokens, head_dim)
    segment = encode_segment(keys, 8)
    rotated = rotate(keys.astype(np.float64) - segment.centre)
    m = segment.blocks[:, :BLOCK_TOKENS].reshape(-1)[:tokens].astype(np.float64)
    step = m * segment.scale
    assert (np.abs(decoded(segment) - rotated) <= step[:, None] * (0.5 + 1e-9)).all()
    # m_t S is the token's own step, rounded up to the grid of S.
    own = np.abs(rotated).max(axis=1) / 127
    assert (step >= own * (1 - 1e-12)).all()
    assert (step <= own + segment.scale * (1 + 1e-9)).all()


@holds(SEEDS, HEAD_DIMS, st.integers(1, 70))
def test_int4_clipping_is_no_worse_than_full_range(seed: int, head_dim: int, tokens: int) -> None:
    """Least squared error over the clips includes c = 1, up to the rounding of the token scale to the grid of S."""
    keys = keys_of(seed, tokens, head_dim)
    segment = encode_segment(keys, 4)
    rotated = rotate(keys.astype(np.float64) - segment.centre)
    step = np.abs(rotated).max(axis=1, keepdims=True) / 7
    step = np.where(step > 0, step, 1)
    full = ((np.rint(rotated / step) * step - rotated) ** 2).sum()
    assert ((decoded(segment) - rotated) ** 2).sum() <= full * 1.15 + 1e-12


@holds(SEEDS, BITS, HEAD_DIMS, st.integers(1, 70))
def test_headers(seed: int, bits: int, head_dim: int, tokens: int) -> None:
    segment = encode_segment(keys_of(seed, tokens, head_dim), bits, stream=seed << 20, first_block=11)
    count = -(-tokens // BLOCK_TOKENS)
    header = segment.blocks[:, :60]
    existing = (header[:, :32] != 0).sum(axis=1)
    assert existing.sum() == tokens
    np.testing.assert_array_equal(header[:, 34:36].copy().view("<u2")[:, 0], existing)
    np.testing.assert_array_equal(header[:, 36:40].copy().view("<u4")[:, 0], np.arange(11, 11 + count))
    np.testing.assert_array_equal(header[:, 40:48].copy().view("<u8")[:, 0], np.full(count, seed << 20, np.uint64))
    assert not header[:, 48:].any()


@holds(SEEDS, BITS, st.integers(0, 7))
def test_any_flipped_bit_is_noticed(seed: int, bits: int, bit: int) -> None:
    segment = encode_segment(keys_of(seed, 64, 32), bits)
    query = encode_query(np.ones((1, 32)), segment, 1.0)
    sound = score(query, segment)
    blocks = segment.blocks.copy()
    blocks[1, np.random.default_rng(seed).integers(blocks.shape[1])] ^= 1 << bit
    damaged = score(query, Segment(blocks, segment.centre, segment.scale, bits, 32, 64))
    assert damaged.bad.tolist() == [1]
    assert damaged.log_mass[0].tolist() == [sound.log_mass[0, 0], EMPTY]
    assert damaged.total[0] == sound.log_mass[0, 0]


@holds(SEEDS, BITS, st.sampled_from([np.nan, np.inf, -np.inf]), st.integers(0, 49))
def test_a_key_that_is_not_finite_is_named(seed: int, bits: int, value: float, token: int) -> None:
    keys = keys_of(seed, 50, 48)
    keys[token, seed % 48] = value
    with pytest.raises(ContractError, match=f"token {token} is not finite"):
        encode_segment(keys, bits)


@holds(SEEDS, BITS)
def test_adopting_keeps_centre_and_scale_or_refuses(seed: int, bits: int) -> None:
    earlier = encode_segment(keys_of(seed, 64, 64), bits)
    keys = keys_of(seed + 1, 32, 64)
    if can_adopt(keys, earlier):
        later = encode_segment(keys, bits, adopt=earlier)
        assert later.scale == earlier.scale
        np.testing.assert_array_equal(later.centre, earlier.centre)
    else:
        with pytest.raises(ContractError, match="start a segment of its own"):
            encode_segment(keys, bits, adopt=earlier)
    with pytest.raises(ContractError, match="exceeds the adopted segment's scale"):
        encode_segment(keys * 1e4, bits, adopt=earlier)


@holds(st.floats(2.0**-47, 65535, exclude_max=True))
def test_fixed_point_is_within_half_a_unit(value: float) -> None:
    mantissa, shift = fixed_point(value)
    assert 2**15 <= mantissa < 2**16
    assert 0 <= shift <= 63
    assert abs(mantissa * 2.0**-shift - value) <= value * 2.0**-16


@holds(SEEDS, st.integers(1, 20))
def test_block_log_mass_is_within_mitchells_error(seed: int, spread: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-(1 << spread), 1 << spread, (3, 4, BLOCK_TOKENS))
    exists = rng.random((4, BLOCK_TOKENS)) < 0.7
    exists[:, 0] = True
    got = block_log_mass(x, exists) / 256
    scores = np.where(exists, x / 256, -np.inf)
    exact = np.log2(np.exp2(scores - scores.max(axis=2, keepdims=True)).sum(axis=2)) + scores.max(axis=2)
    # One linear fraction up (mass too large), one down (log too small), the fraction's and the shifts' truncation.
    assert (got - exact <= MITCHELL + 1 / 256).all()
    assert (got - exact >= -MITCHELL - 2 / 256).all()


@holds(SEEDS)
def test_order_of_tokens_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-(2**31), 2**31, (2, 3, BLOCK_TOKENS))
    exists = rng.random((3, BLOCK_TOKENS)) < 0.5
    order = rng.permutation(BLOCK_TOKENS)
    np.testing.assert_array_equal(block_log_mass(x[:, :, order], exists[:, order]), block_log_mass(x, exists))


@holds(SEEDS, st.integers(0, BLOCK_TOKENS - 1), st.integers(0, 1 << 20))
def test_a_larger_score_never_lowers_the_log_mass(seed: int, token: int, rise: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-(1 << 12), 1 << 12, (1, 1, BLOCK_TOKENS))
    exists = np.ones((1, BLOCK_TOKENS), bool)
    before = block_log_mass(x, exists)[0, 0]
    x[0, 0, token] += rise
    # A new maximum shifts the others down and truncates them: at most one unit is lost.
    assert block_log_mass(x, exists)[0, 0] >= before - 1
    assert LOG_MASS_MIN <= before <= LOG_MASS_MAX


@holds(SEEDS, st.integers(0, 300), st.integers(2, 14))
def test_the_fold_is_the_logarithm_of_the_sum(seed: int, count: int, spread: int) -> None:
    rng = np.random.default_rng(seed)
    mass = np.where(rng.random(count) < 0.2, EMPTY, rng.integers(-(1 << spread), 1 << spread, count))
    initial = EMPTY if rng.random() < 0.3 else int(rng.integers(-(1 << spread), 1 << spread))
    total = fold_total(initial, mass)
    present = np.array([value for value in [initial, *mass.tolist()] if value != EMPTY])
    if not len(present):
        assert total == EMPTY
        return
    top = present.max() / 256
    exact = np.log2(np.exp2(present / 256 - top).sum()) + top
    assert abs(total / 256 - exact) <= MITCHELL + 2 / 256


@holds(SEEDS, st.integers(0, 200), st.integers(1, 2048))
def test_top_k_is_a_stable_sort_by_priority(seed: int, count: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    mass = rng.integers(-2000, 2000, (3, count)).astype(np.int32) // 500 * 500
    mass[rng.random(mass.shape) < 0.2] = EMPTY
    total = np.array([fold_total(EMPTY, mass[h]) for h in range(3)], np.int32)
    scores = Scores(mass, total)
    positions, chosen = top_k(scores, k)
    priority = priorities(scores)
    exists = [i for i in range(count) if (mass[:, i] != EMPTY).any()]
    want = sorted(exists, key=lambda i: (-int(priority[i]), i))[:k]
    assert positions.tolist() == want
    np.testing.assert_array_equal(chosen, priority[positions])


@holds(SEEDS)
def test_priorities_are_shares_of_the_mass(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mass = rng.integers(-3000, 3000, (4, 50)).astype(np.int32)
    total = np.array([fold_total(EMPTY, row) for row in mass], np.int32)
    share = priorities(Scores(mass, total)) / 2.0**24
    exact = (np.exp2(mass / 256) / np.exp2(mass / 256).sum(axis=1, keepdims=True)).sum(axis=0)
    np.testing.assert_allclose(share, exact, rtol=0.13, atol=1e-5)


@holds(SEEDS, BITS, st.sampled_from((32, 80, 128)))
def test_a_score_is_the_attention_logit(seed: int, bits: int, head_dim: int) -> None:
    """The log-mass of a lone token is its logit in log2 units, up to the quantisation of the query."""
    rng = np.random.default_rng(seed)
    keys = keys_of(seed, 64, head_dim)
    queries = rng.standard_normal((3, head_dim))
    segment = encode_segment(keys, bits)
    query = encode_query(queries, segment, head_dim**-0.5)
    _, values, _ = unpack_blocks(segment.blocks, bits, segment.width)
    lone = np.zeros(32 * 64, np.uint8)
    lone[::32] = segment.blocks[:, :32].reshape(-1)
    rows = np.zeros((32 * 64, segment.width), np.int8)
    rows[::32] = values.reshape(-1, segment.width)
    single = Segment(pack_blocks(rows, lone, bits), segment.centre, segment.scale, bits, head_dim, len(rows))
    got = score(query, single).log_mass / 256
    turned_q = rotate(queries)
    error_q = np.abs(turned_q).max(axis=1) / 254
    restored = decoded(segment)
    exact = (queries @ segment.centre.astype(np.float64))[:, None] + turned_q @ restored.T
    bound = error_q[:, None] * np.abs(restored).sum(axis=1)[None] + 1e-3 * np.abs(turned_q @ restored.T)
    unit = head_dim**-0.5 * np.log2(np.e)
    assert (np.abs(got - exact * unit) <= bound * unit + 2 / 256).all()


def test_k_outside_its_range_is_refused() -> None:
    scores = Scores(np.zeros((1, 3), np.int32), np.zeros(1, np.int32))
    for k in (0, 2049):
        with pytest.raises(ContractError, match=f"not {k}"):
            top_k(scores, k)


def test_a_run_of_equal_requests_is_one_request() -> None:
    """Positions count over the runs: two segments score as their concatenation does."""
    segment = encode_segment(keys_of(0, 96, 64), 8)
    query = encode_query(np.random.default_rng(1).standard_normal((2, 64)), segment, 0.125)
    halves = [
        Segment(part, segment.centre, segment.scale, 8, 64, 32 * len(part))
        for part in (segment.blocks[:1], segment.blocks[1:])
    ]
    twice = Query(query.q, np.tile(query.c, (2, 1)), np.tile(query.r, (2, 1)), np.tile(query.b, (2, 1)))
    want, got = score(query, segment), score(twice, halves)
    np.testing.assert_array_equal(got.log_mass, want.log_mass)
    np.testing.assert_array_equal(got.total, want.total)
