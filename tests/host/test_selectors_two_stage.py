"""Two stages: what summaries say of blocks that come one after the other, and how the share finds its level."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv import selectors
from nearkv.selectors.base import exact_log_mass
from nearkv.selectors.summaries import SUMMARIES, SummaryTable
from nearkv.selectors.two_stage import CandidateShare


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), spread=st.floats(0, 4))
def test_bounds_in_one_byte_are_still_bounds_and_take_a_64th_of_the_kv(seed, spread):
    rng = np.random.default_rng(seed)
    keys = (rng.normal(size=(96 * 32, 64)) * spread + rng.normal(size=64)).astype(np.float32)
    queries = rng.normal(size=(4, 64)).astype(np.float32)
    summary = selectors.create("quest_int8", keys)
    exact = exact_log_mass(queries, keys, 0.125)
    assert (summary.estimate(queries, 0.125) >= exact - 1e-3 * (1 + np.abs(exact))).all()
    assert summary.nbytes <= 0.02 * (2 * 2 * keys.size)


def shares_of(log_mass, outside):
    """Share of the softmax over blocks and outside, mean over the heads: [blocks] of [G, blocks] and [G]."""
    weight = np.exp(np.column_stack([log_mass, outside]) - log_mass.max())
    return (weight / weight.sum(axis=1, keepdims=True))[:, :-1].mean(axis=0)


@pytest.mark.parametrize("name", sorted(SUMMARIES))
def test_a_table_estimates_as_the_selector_of_its_name(name):
    rng = np.random.default_rng(3)
    keys = (rng.normal(size=(2, 20 * 32, 48)) + rng.normal(size=(2, 1, 48))).astype(np.float32)
    queries = rng.normal(size=(2, 3, 48)).astype(np.float32)
    outside = rng.normal(size=(2, 3)).astype(np.float32)
    table = SummaryTable(SUMMARIES[name], 2, 48, 20)
    for stream in range(2):
        table.add(stream, 0, keys[stream].reshape(20, 32, 48))
    found = table.shares(np.arange(2), np.array([20, 20]), queries, 0.2, outside)
    for stream in range(2):
        selector = selectors.create(name, keys[stream])
        expected = shares_of(selector.estimate(queries[stream], 0.2).astype(np.float64), outside[stream])
        np.testing.assert_allclose(found[stream], expected, rtol=0.02, atol=1e-6)
    assert table.nbytes == 2 * (20 * SUMMARIES[name].row_bytes(48) + SUMMARIES[name].stream_bytes(48))
    assert table.nbytes <= 0.034 * (2 * 2 * keys.size)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31), parts=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    name=st.sampled_from(sorted(SUMMARIES)), limit=st.none() | st.integers(1, 12),
)  # fmt: skip
def test_blocks_may_come_one_after_the_other_and_bounds_stay_bounds(seed, parts, name, limit):
    rng = np.random.default_rng(seed)
    drift = [rng.normal(size=(n, 32, 32)) * rng.gamma(1.0) + rng.normal(size=32) * 2 for n in parts]
    keys = np.concatenate(drift).astype(np.float32)
    table, at = SummaryTable(SUMMARIES[name], 1, 32, limit), 0
    for n in parts:
        table.add(0, at, keys[at : at + n])
        at += n
    count = int(table.count[0])
    assert count == min(at, at if limit is None else limit)
    if limit is not None:
        assert table.nbytes == limit * SUMMARIES[name].row_bytes(32) + SUMMARIES[name].stream_bytes(32)
    if name != "quest_int8":
        return
    codes = table._rows[0, :count].astype(np.float64) * np.tile(table._step[0], 2) + np.tile(table._offset[0], 2)
    slack = 1e-4 * (1 + np.abs(keys[:count]).max())
    assert (codes[:, :32] <= keys[:count].min(axis=1) + slack).all()
    assert (codes[:, 32:] >= keys[:count].max(axis=1) - slack).all()


def test_the_share_grows_at_once_where_mass_is_lost_and_settles_below_the_stated_loss():
    """A stream that loses max(0, 0.5 - share) / 10 of its mass: 1 % at a share of 0.4."""
    share = CandidateShare(loss=0.01, fraction=0.25)
    losses, audits = [], 0
    for _ in range(32 * 40):
        lost = max(0.0, 0.5 - share.fraction) / 10
        if share.audit_due():
            audits += 1
            share.audited(0.9, 0.9 * (1 - lost))
        losses.append(lost)
    assert audits == 40 + 5  # steps 1, 2, 4, 8 and 16 of the first 32
    assert np.mean(losses[320:]) < 0.01
    assert 0.4 <= share.fraction < 0.6


def test_the_share_stays_within_its_bounds():
    share = CandidateShare(fraction=0.1)
    for _ in range(40):
        share.audited(1.0, 1.0)
    assert share.fraction == share.smallest
    for _ in range(40):
        share.audited(1.0, 0.5)
    assert share.fraction == 1.0


def test_streams_are_steered_apart_and_one_that_was_not_asked_stays():
    share = CandidateShare(fraction=0.2, streams=3, phase=5)
    due = [share.audit_due() for _ in range(64)]
    assert [step for step, now in enumerate(due) if now] == [0, 1, 2, 4, 8, 16, 27, 59]
    share.audited(np.array([1.0, 1.0, np.nan]), np.array([0.9, 1.0, np.nan]))
    assert share.fraction.tolist() == pytest.approx([0.3, 0.186, 0.2])


@pytest.mark.parametrize("change", [{"loss": 0}, {"fraction": 1.5}, {"smallest": 0.5}, {"audit_every": 0}])
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(ValueError, match="must lie"):
        CandidateShare(**change)
