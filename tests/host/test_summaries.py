"""Summaries that grow with their streams say what the selector of their name says, in the bytes that were counted."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv import selectors
from nearkv.selectors import SUMMARIES
from nearkv.selectors.base import exact_log_mass
from nearkv.selectors.shadowkv import least_cosine, outliers

NAMES = sorted(SUMMARIES)
DIM, SCALE = 48, 0.2


def stream_keys(rng, blocks, dim=DIM):
    """Keys [blocks, 32, d] around centres that several blocks share, one block in eight spread wide."""
    centre = 2 * rng.normal(size=(5, dim))[rng.integers(0, 5, blocks)]
    spread = rng.choice([0.3, 1.5], (blocks, 1, 1), p=[7 / 8, 1 / 8])
    return (centre[:, None] + spread * rng.normal(size=(blocks, 32, dim))).astype(np.float32)


def table_of(name, keys, parts=None, limit=None):
    """A table whose streams got their ``keys`` (one array [n, 32, d] each), in ``parts`` blocks at a time."""
    table = SUMMARIES[name](len(keys), keys[0].shape[2], limit)
    for stream, blocks in enumerate(keys):
        ends = np.cumsum(parts or [len(blocks)]).tolist() if len(blocks) else []
        for at, end in pairwise([0, *ends]):
            table.add(stream, at, blocks[at:end])
    return table


def close(found, expected):
    """Equal up to what float16 does to keys of this size."""
    np.testing.assert_allclose(found, expected, atol=0.02, rtol=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_estimates_as_the_selector_of_its_name(name):
    rng = np.random.default_rng(3)
    keys = [stream_keys(rng, n) for n in (70, 150)]
    queries = rng.normal(size=(2, 3, DIM)).astype(np.float32)
    table = table_of(name, keys)
    counts = np.array([64, 150])
    found = table.estimate(np.array([0, 1]), counts, queries, SCALE)
    assert found.log_mass.shape == (2, 3, 150)
    for stream, count in enumerate(counts):
        expected = selectors.create(name, keys[stream].reshape(-1, DIM)).estimate(queries[stream], SCALE)
        close(found.log_mass[stream, :, :count], expected[:, :count])


@pytest.mark.parametrize("name", NAMES)
def test_shares_are_of_the_softmax_over_blocks_and_what_lies_outside(name):
    rng = np.random.default_rng(5)
    keys, queries = stream_keys(rng, 20), rng.normal(size=(1, 3, DIM)).astype(np.float32)
    outside, one = rng.normal(size=(1, 3)).astype(np.float32), np.zeros(1, np.int64)
    table = table_of(name, [keys])
    estimate = table.estimate(one, table.count, queries, SCALE)
    shares, read = table.shares(one, table.count, queries, SCALE, outside)
    weight = np.exp(np.column_stack([estimate.log_mass[0], outside[0]]).astype(np.float64))
    np.testing.assert_allclose(shares[0], (weight / weight.sum(axis=1, keepdims=True))[:, :-1].mean(axis=0), rtol=1e-4)
    assert read == estimate.bytes_read


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31), parts=st.lists(st.integers(1, 60), min_size=1, max_size=6), name=st.sampled_from(NAMES),
    limit=st.none() | st.integers(0, 130),
)  # fmt: skip
def test_bytes_are_what_was_reserved_and_blocks_beyond_have_no_summary(seed, parts, name, limit):
    rng = np.random.default_rng(seed)
    keys = stream_keys(rng, sum(parts), 32)
    kind, table = SUMMARIES[name], table_of(name, [keys, keys[:0]], parts, limit)
    count = min(len(keys), len(keys) if limit is None else limit)
    assert table.count.tolist() == [count, 0]
    if limit is None:
        assert 2 * kind.stream_bytes(32, count) <= table.nbytes <= 2 * kind.stream_bytes(32, count + 64)
    else:
        assert table.nbytes == 2 * kind.stream_bytes(32, limit)
    both, queries = np.array([1, 0]), rng.normal(size=(2, 2, 32)).astype(np.float32)
    found = table.estimate(both, table.count[both], queries, SCALE)
    assert found.log_mass.shape == (2, 2, count)
    assert np.isfinite(found.log_mass).all()
    least = 2 * kind.stream_bytes(32, 0) if name.endswith("int8") else 0
    assert least <= found.bytes_read <= least + kind.stream_bytes(32, count)
    if name != "hierarchical":
        assert (found.bytes_read == least) == (count == 0)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**31), parts=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    name=st.sampled_from(["infllm", "mean_key", "mean_variance", "quest"]),
)  # fmt: skip
def test_summaries_of_single_blocks_do_not_depend_on_how_they_came(seed, parts, name):
    rng = np.random.default_rng(seed)
    keys, one = stream_keys(rng, sum(parts)), np.zeros(1, np.int64)
    queries = rng.normal(size=(1, 3, DIM)).astype(np.float32)
    grown, at_once = table_of(name, [keys], parts), table_of(name, [keys])
    for table in (grown, at_once):
        assert table.count[0] == len(keys)
    np.testing.assert_array_equal(
        grown.estimate(one, grown.count, queries, SCALE).log_mass,
        at_once.estimate(one, grown.count, queries, SCALE).log_mass,
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31), parts=st.lists(st.integers(1, 5), min_size=1, max_size=20), shift=st.floats(-1e3, 1e3),
    name=st.sampled_from(["quest_int8", "mean_variance_int8"]),
)  # fmt: skip
def test_bytes_stay_within_a_step_of_the_truth_however_often_the_range_grows(seed, parts, shift, name):
    rng = np.random.default_rng(seed)
    drift = [rng.normal(size=(n, 32, 32)) * rng.gamma(1.0) + rng.normal(size=32) * 2 for n in parts]
    keys = (np.concatenate(drift) + shift).astype(np.float32)
    table = table_of(name, [keys], parts)
    codes, offset, step = (table._arrays[a][0].astype(np.float64) for a in ("rows", "offset", "step"))
    error = codes[: len(keys)] * step + offset - SUMMARIES[name].rows(keys)
    if name == "quest_int8":  # minima rounded down, maxima up
        outward = np.concatenate([-error[:, :32], error[:, 32:]], axis=1)
        assert ((outward >= -1e-3 * step) & (outward <= 1.001 * step)).all()
    else:
        assert (np.abs(error) <= 2 * step).all()
    magnitude = np.abs(SUMMARIES[name].rows(keys)).max(axis=0)
    spread = np.ptp(SUMMARIES[name].rows(keys), axis=0)
    assert (step <= np.maximum(spread / 100, 2**-14 * magnitude)).all()


def test_bounds_in_one_byte_bound_every_channel_from_both_sides():
    rng = np.random.default_rng(13)
    keys, one = stream_keys(rng, 40, 32), np.zeros(1, np.int64)
    table = table_of("quest_int8", [keys], [30, 1, 9])
    queries = np.concatenate([np.eye(32), -np.eye(32)]).astype(np.float32)[None]
    bound = table.estimate(one, table.count, queries, 1.0).log_mass[0] - np.log(32)
    exact = np.concatenate([keys.max(axis=1), -keys.min(axis=1)], axis=1).T
    assert (bound >= exact - 1e-5).all()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), parts=st.lists(st.integers(1, 90), min_size=1, max_size=5))
def test_shadowkv_keeps_the_worst_block_it_ever_saw_and_a_share_of_all(seed, parts):
    rng = np.random.default_rng(seed)
    keys, one = stream_keys(rng, sum(parts)), np.zeros(1, np.int64)
    table = table_of("shadowkv", [keys], parts)
    queries = rng.normal(size=(1, 2, DIM)).astype(np.float32)
    found = table.estimate(one, table.count, queries, SCALE).log_mass[0]
    mean = table_of("mean_key", [keys]).estimate(one, table.count, queries, SCALE).log_mass[0]
    kept = np.flatnonzero((found != mean).any(axis=0))
    assert int(least_cosine(keys).argmin()) in kept
    assert len(kept) <= outliers(len(keys)) == math.ceil(len(keys) / 64)
    close(found[:, kept], exact_log_mass(queries[0], keys.reshape(-1, DIM), SCALE)[:, kept])


def test_an_outlier_among_blocks_that_are_not_asked_for_changes_nothing():
    rng = np.random.default_rng(11)
    keys, one = stream_keys(rng, 40), np.zeros(1, np.int64)
    queries = rng.normal(size=(1, 2, DIM)).astype(np.float32)
    short = np.array([int(least_cosine(keys).argmin())])
    found, mean = (table_of(n, [keys]).estimate(one, short, queries, SCALE).log_mass for n in ("shadowkv", "mean_key"))
    np.testing.assert_array_equal(found, mean)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), parts=st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_a_hierarchical_index_stays_one_of_means_as_its_stream_grows(seed, parts):
    rng = np.random.default_rng(seed)
    keys, one = stream_keys(rng, sum(parts)), np.zeros(1, np.int64)
    table = table_of("hierarchical", [keys], parts)
    clustered, n = int(table._arrays["clustered"][0, 0, 0]), len(keys)
    assert clustered <= n < max(1.25 * clustered, clustered + 1)
    clusters = math.isqrt(clustered)
    label, centroids = table._arrays["label"][0, :n, 0], table._arrays["centroids"][0].astype(np.float32)
    assert label.max() < clusters
    means = keys.mean(axis=1)
    if n == clustered:
        distance = np.square(means[:, None] - centroids[:clusters]).sum(axis=2)
        assert (distance[np.arange(n), label] <= distance.min(axis=1) + 0.05).all()
    else:  # the cluster that the last block joined
        close(centroids[label[-1]], means[label == label[-1]].mean(axis=0))
    queries = rng.normal(size=(1, 2, DIM)).astype(np.float32)
    found = table.estimate(one, table.count, queries, SCALE)
    fine = table_of("mean_key", [keys]).estimate(one, table.count, queries, SCALE).log_mass[0]
    score = SCALE * queries[0] @ centroids[:clusters].T
    for head in range(2):
        opened = np.isin(label, np.argsort(-score[head], kind="stable")[: math.ceil(clusters / 2)])
        close(found.log_mass[0, head, opened], fine[head, opened])
        close(found.log_mass[0, head, ~opened], score[head, label[~opened]] + np.log(32))


def test_a_hierarchical_index_reads_only_what_it_opens():
    rng = np.random.default_rng(7)
    keys, one = stream_keys(rng, 400), np.zeros(1, np.int64)
    table = table_of("hierarchical", [keys])
    read = [table.estimate(one, table.count, q[None, None], SCALE).bytes_read for q in rng.normal(size=(50, DIM))]
    whole = SUMMARIES["mean_key"].stream_bytes(DIM, 400)
    assert max(read) < whole
    assert np.mean(read) == pytest.approx(SUMMARIES["hierarchical"].query_bytes(DIM, 400), rel=0.15)


def test_what_takes_at_most_a_fiftieth_of_a_float16_kv():
    blocks, dim = 254, 64
    kv = blocks * 32 * dim * 2 * 2
    small = {name for name in NAMES if SUMMARIES[name].stream_bytes(dim, blocks) <= 0.02 * kv}
    assert small == {"quest_int8", "mean_variance_int8", "mean_key", "hierarchical"}
