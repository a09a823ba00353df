"""Two stages: bounds in one byte, and how the share of candidates finds its level."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv import selectors
from nearkv.selectors.base import exact_log_mass
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


def test_the_share_grows_at_once_where_mass_is_lost_and_settles_below_the_stated_loss():
    """A stream that loses max(0, 0.5 - share) / 10 of its mass: 1 % at a share of 0.4."""
    share = CandidateShare(loss=0.01, fraction=0.25)
    losses, audits = [], 0
    for _ in range(32 * 40):
        lost = max(0.0, 0.5 - share.fraction[0]) / 10
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


def test_losses_that_are_rare_but_large_are_steered_by_their_mean():
    rng, share, lost = np.random.default_rng(0), CandidateShare(loss=0.01, streams=200), []
    for step in range(1024):
        rare = np.where(rng.random(200) < 0.1, 0.8, 0.005) * np.exp(-6 * share.fraction) * (1 - share.fraction)
        if step >= 128:
            lost.append(rare.mean())
        if share.audit_due():
            share.audited(np.ones(200), 1 - rare)
    assert np.mean(lost) < 0.015
