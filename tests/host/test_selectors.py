"""Selectors: bounds that hold by construction, and the fair comparison built on them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv import selectors
from nearkv.selectors.base import exact_log_mass
from nearkv.selectors.clusters import k_means
from nearkv.selectors.mass import choose, group_share, measure

SCALE = 0.125


def stream(seed, blocks=24, head_dim=64, heads=4, spread=1.0):
    """Keys with block structure (a drifting centre) and queries that look back at some of them."""
    rng = np.random.default_rng(seed)
    centre = np.repeat(rng.normal(size=(blocks, head_dim)), 32, axis=0)
    keys = (centre + spread * rng.normal(size=(blocks * 32, head_dim))).astype(np.float32)
    queries = (2 * keys[rng.integers(0, len(keys), heads)] + rng.normal(size=(heads, head_dim))).astype(np.float32)
    return queries, keys


@pytest.mark.parametrize("name", selectors.names())
def test_estimates_have_one_value_per_query_and_block(name):
    queries, keys = stream(1, blocks=24, heads=20)
    selector = selectors.create(name, keys)
    estimate = selector.estimate(queries, SCALE)
    assert estimate.shape == (20, 24)
    assert estimate.dtype == np.float32
    assert np.isfinite(estimate).all()
    assert (name == "recent") == (selector.nbytes == 0)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), spread=st.floats(0, 4), scale=st.floats(0.01, 1))
def test_quest_bounds_from_above_and_the_mean_key_from_below(seed, spread, scale):
    queries, keys = stream(seed, blocks=6, spread=spread)
    exact = exact_log_mass(queries, keys, scale)
    slack = 1e-4 * (1 + np.abs(exact))
    assert (selectors.create("quest", keys).estimate(queries, scale) >= exact - slack).all()
    assert (selectors.create("mean_key", keys).estimate(queries, scale) <= exact + slack).all()


def test_summaries_are_exact_where_a_block_repeats_one_key():
    rng = np.random.default_rng(5)
    keys = np.repeat(rng.normal(size=(9, 64)).astype(np.float32), 32, axis=0)
    queries = rng.normal(size=(3, 64)).astype(np.float32)
    exact = exact_log_mass(queries, keys, SCALE)
    for name in ("quest", "mean_key", "mean_variance"):
        np.testing.assert_allclose(selectors.create(name, keys).estimate(queries, SCALE), exact, atol=1e-4)


@pytest.mark.parametrize(("name", "tolerance"), [("int8", 0.05), ("int4", 0.5)])
def test_the_drives_scorer_is_close_to_the_exact_log_mass(name, tolerance):
    queries, keys = stream(7)
    exact = exact_log_mass(queries, keys, SCALE)
    error = selectors.create(name, keys).estimate(queries, SCALE) - exact
    assert np.abs(error).max() < tolerance * exact.std()


def test_int4_reads_about_half_of_int8_and_summaries_far_less():
    _, keys = stream(3)
    size = {name: selectors.create(name, keys).nbytes for name in selectors.names()}
    assert size["int8"] == 24 * (64 + 32 * 64)
    assert size["int4"] == 24 * (64 + 32 * 32)
    assert size["mean_key"] * 32 == size["oracle"]
    assert size["quest"] * 16 == size["oracle"]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_the_oracle_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    pairs = [stream(seed + i, heads=6) for i in range(2)]
    queries = np.concatenate([p[0].reshape(2, 3, 64) for p in pairs], axis=1)
    keys = np.stack([p[1] for p in pairs])
    visible = rng.integers(300, keys.shape[1] + 1, 2)
    mass = measure(queries, keys, SCALE, 256, selectors=selectors.names(), visible=visible)
    for name, share in mass.items():
        assert share.shape == (2, 2)
        assert (share > 0).all()
        assert (share <= mass["oracle"] + 1e-6).all(), name


def test_shadowkv_is_exact_for_the_block_its_mean_describes_worst():
    queries, keys = stream(29, spread=0.1)
    keys[5 * 32 : 6 * 32 : 2] *= -1
    exact = exact_log_mass(queries, keys, SCALE)
    off = np.abs(selectors.create("shadowkv", keys).estimate(queries, SCALE) - exact)
    assert off[:, 5].max() < 1e-4
    assert np.abs(selectors.create("mean_key", keys).estimate(queries, SCALE) - exact)[:, 5].max() > 1


def test_clusters_of_well_separated_means_are_found():
    rng = np.random.default_rng(31)
    centres = 10 * rng.normal(size=(3, 16)).astype(np.float32)
    points = centres.repeat(20, axis=0) + 0.1 * rng.normal(size=(60, 16)).astype(np.float32)
    centroids, label = k_means(points, 3)
    assert [len(set(label[i : i + 20])) for i in (0, 20, 40)] == [1, 1, 1]
    np.testing.assert_allclose(np.sort(centroids, axis=0), np.sort(centres, axis=0), atol=0.2)


def test_the_hierarchical_index_follows_the_mean_key_in_the_clusters_it_opens():
    queries, keys = stream(37, blocks=36)
    fine = selectors.create("mean_key", keys).estimate(queries, SCALE)
    coarse = selectors.create("hierarchical", keys).estimate(queries, SCALE)
    same = np.isclose(fine, coarse, atol=1e-5)
    assert 0.2 < same.mean() < 0.95
    assert same[np.arange(len(queries)), fine.argmax(axis=1)].all()
    assert selectors.create("hierarchical", keys).nbytes < selectors.create("mean_key", keys).nbytes


def test_mass_agrees_with_attention_computed_token_by_token():
    queries, keys = stream(11, blocks=10, heads=2)
    visible = 299  # 9 full blocks and 11 tokens
    mass = measure(queries[None], keys[None], SCALE, 160, visible=[visible], selectors=["oracle", "recent"])
    scores = SCALE * queries @ keys[:visible].T
    weight = np.exp(scores - scores.max(axis=1, keepdims=True))
    weight = (weight / weight.sum(axis=1, keepdims=True)).mean(axis=0)
    per_block = np.array([weight[i : i + 32].sum() for i in range(0, visible, 32)])
    best = np.sort(per_block[1:8])[::-1][:2].sum()
    assert mass["oracle"][0, 0] == pytest.approx(per_block[[0, 8, 9]].sum() + best, abs=1e-5)
    assert mass["recent"][0, 0] == pytest.approx(per_block[[0, 6, 7, 8, 9]].sum(), abs=1e-5)


def test_a_budget_for_everything_holds_all_the_mass():
    queries, keys = stream(13, blocks=8)
    mass = measure(queries[None], keys[None], SCALE, 8 * 32)
    assert set(mass) == set(selectors.COMPARED)
    for share in mass.values():
        np.testing.assert_allclose(share, 1, atol=1e-5)


def test_the_future_does_not_count():
    queries, keys = stream(17)
    short = measure(queries[None], keys[None, :320], SCALE, 160, selectors=["oracle", "quest", "recent"])
    long = measure(queries[None], keys[None], SCALE, 160, selectors=["oracle", "quest", "recent"], visible=[320])
    for name, share in short.items():
        np.testing.assert_allclose(long[name], share, rtol=1e-5)


def test_a_stream_shorter_than_a_block_is_held_whole():
    queries, keys = stream(19, blocks=1)
    mass = measure(queries[None], keys[None, :20], SCALE, 160)
    np.testing.assert_allclose([share[0, 0] for share in mass.values()], 1, atol=1e-5)


def test_heads_of_a_group_count_alike_whatever_the_size_of_their_scores():
    log_mass = np.array([[100.0, 0.0, 0.0], [0.0, 1.0, 0.0]], np.float32)
    share = group_share(log_mass)
    assert share[0] == pytest.approx((1 + np.exp(0) / (2 + np.e)) / 2, abs=1e-5)


def test_ties_go_to_the_lower_index_and_sink_and_recent_are_always_in():
    chosen = choose(np.zeros((1, 12), np.float32), np.array([12 * 32 - 5]), 5, 1, 2)
    assert np.flatnonzero(chosen[0]).tolist() == [0, 1, 2, 10, 11]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 96}, "leaves no block"),
        ({"keys": np.zeros((3, 64, 64))}, "must be"),
        ({"visible": [2000]}, "visible must give"),
        ({"selectors": ["magic"]}, "no selector is called 'magic'; there are: .*quest"),
    ],
)
def test_bad_input_is_named(change, message):
    queries, keys = stream(23)
    arguments = {"queries": queries[None], "keys": keys[None], "scale": SCALE, "budget": 256} | change
    with pytest.raises(ValueError, match=message):
        measure(**arguments)


def test_keys_that_are_not_whole_blocks_are_refused():
    with pytest.raises(ValueError, match="multiple of 32"):
        selectors.create("quest", np.zeros((33, 64)))
