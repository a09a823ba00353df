"""The native first stage against NumPy: shares from summaries, and which blocks become candidates."""

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


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**31), width=st.sampled_from([32, 96, 512]), group=st.integers(1, 5))
def test_shares_are_those_of_the_softmax(data, seed, width, group):
    rng = np.random.default_rng(seed)
    blocks = data.draw(st.sampled_from([1, 7, 40, 600]))
    rows = rng.integers(0, 256, (4, blocks, width), np.uint8)
    streams = np.array(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4)))
    counts = np.array([data.draw(st.integers(0, blocks)) for _ in streams])
    features = (rng.normal(size=(len(streams), group, width)) / width).astype(np.float32)
    outside = rng.normal(size=(len(streams), group)).astype(np.float32) * 3
    found = summary.shares(rows, streams, counts, features, outside)
    assert found.shape == (len(streams), counts.max())
    for r, (stream, count) in enumerate(zip(streams, counts, strict=True)):
        estimate = features[r].astype(np.float64) @ rows[stream, :count].T.astype(np.float64)
        weight = np.exp(np.column_stack([estimate, outside[r]]))
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
    rows, one = np.zeros((2, 4, 32), np.uint8), np.array([0])
    good = (np.zeros((1, 1, 32), np.float32), np.zeros((1, 1), np.float32))
    for arguments, name in (
        ((rows, np.array([2]), one, *good), "a stream"),
        ((rows, one, np.array([5]), *good), "a count of blocks"),
        ((rows, one, one, np.zeros((1, 1, 16), np.float32), good[1]), "the width of a row"),
        ((rows, one, one, good[0], np.zeros((1, 2), np.float32)), "outside"),
    ):
        with pytest.raises(ContractError, match=f"{name} does not fit"):
            summary.shares(*arguments)
    with pytest.raises(ContractError, match=r"must lie in \(0, 1\]"):
        summary.choose(np.zeros((1, 3), np.float32), np.array([3]), np.array([0.0]), 1)
