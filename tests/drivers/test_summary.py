"""The native first stage against NumPy: products with summaries, shares, and which blocks become candidates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv_drivers import summary
from nearkv_drivers.wire import ContractError


def candidates(share, count, fraction, sinks):
    """Reference: sinks, and the ceil(fraction) of the others that have the highest share, ties to the lower index."""
    rest = np.arange(sinks, count)
    order = rest[np.argsort(-share[rest], kind="stable")]
    chosen = np.zeros(len(share), bool)
    chosen[: min(sinks, count)] = True
    chosen[order[: int(np.ceil(fraction * len(rest)))]] = True
    return chosen


def drawn_streams(data, most):
    """Streams asked for, of four, and how many of their rows."""
    streams = np.array(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4)))
    return streams, np.array([data.draw(st.integers(0, most)) for _ in streams])


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(), seed=st.integers(0, 2**31), width=st.sampled_from([16, 40, 96, 512]), group=st.integers(1, 5),
    dtype=st.sampled_from([np.uint8, np.float16, np.float32]), blocks=st.sampled_from([1, 7, 40, 600]),
)  # fmt: skip
def test_products_are_those_of_matrices(data, seed, width, group, dtype, blocks):
    rng = np.random.default_rng(seed)
    magnitude = 10.0 ** rng.uniform(-7, 2, (4, blocks, width)) * rng.choice([-1, 1], (4, blocks, width))
    rows = rng.integers(0, 256, magnitude.shape, np.uint8) if dtype == np.uint8 else magnitude.astype(dtype)
    streams, counts = drawn_streams(data, blocks)
    features = rng.normal(size=(len(streams), group, width)).astype(np.float32)
    found = summary.products(rows, streams, counts, features)
    assert found.shape == (len(streams), group, counts.max())
    for r, (stream, count) in enumerate(zip(streams, counts, strict=True)):
        exact, wide = features[r].astype(np.float64), rows[stream, :count].astype(np.float64)
        slack = 1e-5 * (np.abs(exact) @ np.abs(wide).T)
        assert (np.abs(found[r, :, :count] - exact @ wide.T) <= slack).all()
        assert (found[r, :, count:] == 0).all()


@given(bits=st.integers(0, 0x7BFF), sign=st.booleans())
def test_every_finite_half_counts_as_what_it_is(bits, sign):
    half = np.array([bits | sign << 15], np.uint16).view(np.float16)
    one = np.zeros(1, np.int64), np.ones(1, np.int64), np.ones((1, 1, 1), np.float32)
    assert summary.products(half.reshape(1, 1, 1), *one).item() == half.item()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**31), group=st.integers(1, 5), blocks=st.sampled_from([1, 7, 40, 600]))
def test_shares_are_those_of_the_softmax(data, seed, group, blocks):
    rng = np.random.default_rng(seed)
    streams, counts = drawn_streams(data, blocks)
    log_mass = (rng.normal(size=(len(streams), group, blocks)) * 5).astype(np.float32)
    outside = rng.normal(size=(len(streams), group)).astype(np.float32) * 3
    found = summary.shares(log_mass, counts, outside)
    assert found.shape == (len(streams), blocks)
    for r, count in enumerate(counts):
        weight = np.exp(np.column_stack([log_mass[r, :, :count], outside[r]]).astype(np.float64))
        expected = (weight / weight.sum(axis=1, keepdims=True))[:, :-1].mean(axis=0)
        np.testing.assert_allclose(found[r, :count], expected, rtol=1e-4, atol=1e-9)
        assert (found[r, count:] == 0).all()


@settings(max_examples=80, deadline=None)
@given(
    shares=st.lists(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5]), min_size=12, max_size=12), min_size=1, max_size=3),
    data=st.data(), sinks=st.integers(0, 3),
)  # fmt: skip
def test_the_best_are_chosen_and_sinks_always(shares, data, sinks):
    table = np.array(shares, np.float32)
    counts = np.array([data.draw(st.integers(0, 12)) for _ in shares])
    fractions = np.array([data.draw(st.floats(0.01, 1.0)) for _ in shares])
    found = summary.choose(table, counts, fractions, sinks)
    for r, row in enumerate(found):
        np.testing.assert_array_equal(row, candidates(table[r], counts[r], fractions[r], sinks))


def test_what_does_not_fit_is_named():
    rows, one, features = np.zeros((2, 4, 32), np.uint8), np.array([0]), np.zeros((1, 1, 32), np.float32)
    log_mass, outside = np.zeros((1, 1, 4), np.float32), np.zeros((1, 1), np.float32)
    for call, arguments, name in (
        (summary.products, (rows, np.array([2]), one, features), "a stream"),
        (summary.products, (rows, one, np.array([5]), features), "a count of blocks"),
        (summary.products, (rows, one, one, np.zeros((1, 1, 16), np.float32)), "the width of a row"),
        (summary.products, (rows, one, np.zeros(2, np.int64), features), "the number of streams"),
        (summary.shares, (log_mass, one, np.zeros((1, 2), np.float32)), "outside"),
        (summary.shares, (log_mass, np.array([5]), outside), "a count of blocks"),
    ):
        with pytest.raises(ContractError, match=f"{name} does not fit"):
            call(*arguments)
    with pytest.raises(ContractError, match=r"must lie in \(0, 1\]"):
        summary.choose(np.zeros((1, 3), np.float32), np.array([3]), np.array([0.0]), 1)
