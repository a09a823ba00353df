"""How the streams divide a pool by what their selections are: sums, bounds, and who gets more."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv.tiers.working_set import WorkingSets


def watched(layers):
    """What has seen ``layers``: selections [P, S, k] of each."""
    sets = WorkingSets(len(layers))
    for place, selections in enumerate(layers):
        for chosen in selections:
            sets.observe(place, chosen.astype(np.int32))
    return sets


def cycling(around, steps=60, width=6):
    """Selections [P, S, width] of which one block changes per step: stream n goes around ``around[n]`` more blocks."""
    rows = []
    for more in around:
        at = np.arange(steps)[:, None] + np.arange(width)
        rows.append(at % (width + more))
    return np.stack(rows, axis=1)


def test_a_stream_whose_selection_stands_still_gets_room_for_it_and_no_more():
    sets = watched([cycling([0, 8]), cycling([0, 20])])
    shares = sets.shares(2 * 2 * 12, 100)
    assert shares.sum() == 48
    assert shares[:, 0].max() <= 7
    assert shares[:, 1].min() > 12


def test_what_comes_back_sooner_gets_more_of_a_pool_that_holds_it():
    """All change by one block per step; the first stream's blocks are back after two steps, the second's never."""
    sets = watched([cycling([2, 1000])])
    small, large = sets.shares(2 * 7, 100), sets.shares(2 * 20, 100)
    assert abs(small[0, 0] - small[0, 1]) <= 1
    assert large[0, 1] - large[0, 0] > 6


def test_a_division_goes_a_part_of_the_way_and_rests_at_the_one_wanted():
    sets = watched([cycling([0, 8])])
    held, wanted = np.array([[15, 15]]), sets.shares(30, 100)
    first = sets.follow(held, 100)
    assert held[0, 1] < first[0, 1] < wanted[0, 1]
    for _ in range(40):
        held = sets.follow(held, 100)
    assert np.abs(held - wanted).max() <= 2
    assert sets.follow(wanted + np.array([[1, -1]]), 100).tolist() == (wanted + np.array([[1, -1]])).tolist()


@pytest.mark.parametrize(("seen", "held", "most"), [(1, 9, 50), (9, 20, 20), (9, 0, 50), (0, 9, 50)])
def test_where_there_is_nothing_to_divide_by_or_for_everything_stays(seen, held, most):
    sets = watched([cycling([0, 8], steps=seen)]) if seen else WorkingSets(1)
    assert sets.follow(np.array([[held, held]]), most).tolist() == [[held, held]]


SELECTIONS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 8)), min_size=2, max_size=12)


@settings(max_examples=60, deadline=None)
@given(layers=st.integers(1, 3), streams=st.integers(1, 4), steps=SELECTIONS, pool=st.integers(1, 150))
def test_shares_add_up_stay_within_bounds_and_are_the_same_each_time(layers, streams, steps, pool):
    def drawn():
        sets = WorkingSets(layers)
        for seed, width in steps:
            rng = np.random.default_rng(seed)
            for place in range(layers):
                chosen = np.full((streams, 8), -1, np.int32)
                for row in chosen:
                    row[:width] = rng.permutation(30)[:width]
                sets.observe(place, chosen)
        return sets

    sets, most = drawn(), 30
    for part in (slice(None), slice(0, 1)):
        shares = sets.shares(pool, most, part)
        assert shares.shape == (layers, len(range(streams)[part]))
        assert shares.sum() == min(pool, most * shares.size)
        assert shares.min() >= 0
        assert shares.max() <= most
        np.testing.assert_array_equal(shares, drawn().shares(pool, most, part))
        even = np.full(shares.size, 1 / shares.size)
        held = np.random.default_rng(pool).multinomial(pool, even).reshape(shares.shape)
        moved = sets.follow(held, most, part)
        assert moved.sum() == held.sum()
        assert moved.min() >= 0
