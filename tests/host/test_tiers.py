"""Tier management without a cache: beta, alpha, emergency mode, token bucket, warm-up, layout."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv.tiers.alpha import alpha_budget
from nearkv.tiers.beta import Limit, Pipeline, Rates, beta, selection_skew, split
from nearkv.tiers.beta_control import BetaController, Measured
from nearkv.tiers.emergency import EmergencyConfig, EmergencyMode, Settings
from nearkv.tiers.layout import co_selection, coalesce, pack_together, read_cost
from nearkv.tiers.link import Link
from nearkv.tiers.token_bucket import TokenBucket
from nearkv.tiers.warmup import important_blocks, pool_shares, prompt_shares

RATE = st.floats(1e8, 1e11)
RATES = st.builds(Rates, RATE, RATE, RATE, RATE)


@given(RATES, st.floats(0, 1), st.sampled_from(Pipeline), st.integers(10**6, 10**12))
def test_balanced_sides_finish_together(rates, alpha, pipeline, total):
    parts = split(total, total, beta(rates, alpha, pipeline))
    assert parts.host_bytes + parts.drive_bytes == total
    assert parts.limit is Limit.BALANCE
    host = rates.host_seconds(parts.host_bytes, alpha, pipeline)
    drive = rates.drive_seconds(parts.drive_bytes, alpha, pipeline)
    one_byte = rates.host_seconds(1, alpha, pipeline) + rates.drive_seconds(1, alpha, pipeline)
    assert abs(host - drive) <= one_byte + 1e-9 * host


def test_beta_by_hand():
    rates = Rates(host_score=20e9, drive_score=2e9, host_link=10e9, drive_link=1e9)
    serial = (1 / 2 + 0.2 / 1) / (1 / 20 + 0.2 / 10)
    assert beta(rates, 0.2, Pipeline.SERIAL) == pytest.approx(serial)
    assert beta(rates, 0.2, Pipeline.OVERLAPPED) == pytest.approx((1 / 2) / (1 / 20))
    assert beta(rates, 0.2, Pipeline.SERIAL, skew=0.4) == pytest.approx(serial * 1.06)


def test_the_dram_budget_binds_and_is_named():
    parts = split(1000, 100, 4.0)
    assert (parts.host_bytes, parts.drive_bytes, parts.limit) == (100, 900, Limit.DRAM)
    assert parts.beta == pytest.approx(1 / 9)
    assert parts.balanced_beta == 4.0
    assert split(1000, 800, 4.0).limit is Limit.BALANCE
    assert split(0, 100, 4.0).beta == math.inf


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_was_not_measured_is_refused(rate):
    with pytest.raises(ValueError, match="drive_score must be positive"):
        Rates(1.0, rate, 1.0, 1.0)


@pytest.mark.parametrize(("counts", "skew"), [([3, 3, 3], 0), ([0, 0, 0, 8], 0.75), ([], 0), ([0, 0], 0)])
def test_skew_is_the_gini_coefficient(counts, skew):
    assert selection_skew(counts) == pytest.approx(skew)


class PacedPaths:
    """Host and drive as four paths of given bandwidth: the seconds that a step takes are computed, not slept."""

    def __init__(self, rates, noise, seed=0):
        self.rates, self._noise, self._rng = rates, noise, np.random.default_rng(seed)

    def step(self, parts, alpha):
        """Measurements of one step, and the seconds of both sides in an overlapped pipeline."""
        work = {
            "host_score": parts.host_bytes,
            "drive_score": parts.drive_bytes,
            "host_link": round(alpha * parts.host_bytes),
            "drive_link": round(alpha * parts.drive_bytes),
        }
        seconds = {
            name: nbytes / getattr(self.rates, name) * self._rng.uniform(1 - self._noise, 1 + self._noise)
            for name, nbytes in work.items()
        }
        measured = {name: Measured(work[name], seconds[name]) for name in work}
        host, drive = (max(seconds[f"{side}_score"], seconds[f"{side}_link"]) for side in ("host", "drive"))
        return measured, host, drive


@pytest.mark.parametrize("drive_score", [0.5e9, 1e9, 2e9, 4e9, 8e9])
@pytest.mark.parametrize("drive_link", [0.3e9, 1e9, 3e9])
def test_simulated_sides_finish_within_a_tenth_and_again_after_the_drive_halves(drive_score, drive_link):
    true = Rates(12e9, drive_score, 40e9, drive_link)
    guess = Rates(30e9, 1e9, 30e9, 1e9)  # what a first estimate may be off by
    control = BetaController(guess, alpha=0.2, pipeline=Pipeline.OVERLAPPED)
    paths = PacedPaths(true, noise=0.02)
    changes = []
    for step in range(160):
        if step == 80:
            paths.rates = Rates(12e9, drive_score / 2, 40e9, drive_link)
        measured, host, drive = paths.step(control.split(10**9, 10**12), 0.2)
        if 32 <= step < 80 or step >= 80 + 32:
            assert abs(host - drive) <= 0.1 * max(host, drive), step
        if control.observe(**measured):
            changes.append(step)
    assert sum(40 <= step < 80 for step in changes) <= 2  # hysteresis: no jitter while nothing happens


def test_an_unknown_path_is_refused():
    control = BetaController(Rates(1, 1, 1, 1), alpha=0.2, pipeline=Pipeline.SERIAL)
    with pytest.raises(ValueError, match="no path 'gpu'"):
        control.observe(gpu=Measured(1, 1.0))


@given(
    st.integers(0, 200_000), st.sampled_from([0.15, 0.2, 0.25, 0.29, 0.5, 1.0]), st.integers(0, 2), st.integers(1, 3)
)
def test_alpha_is_exact_to_the_token(tokens, alpha, sink, recent):
    sealed, tail = divmod(tokens, 32)
    older = max(sealed - recent, 0)
    newest = min(sealed, recent) * 32 + tail
    hot = round(alpha * 100) * tokens // 100
    budget = alpha_budget(tokens, alpha, sink_blocks=sink, newest_tokens=newest)
    assert (budget.hot_tokens, budget.pinned_tokens) == (hot, newest + 32 * min(older, sink))
    assert budget.pinned_only == (budget.pinned_tokens > hot)
    if budget.pinned_only:
        assert budget.pool_blocks == 0
        return
    used = budget.pinned_tokens + 32 * budget.pool_blocks
    assert used <= hot
    assert hot - used < 32 or budget.pool_blocks == max(older - sink, 0)


def test_all_of_it_may_be_hot():
    budget = alpha_budget(1000, 1.0, sink_blocks=1, newest_tokens=72)
    assert budget.pinned_tokens + 32 * budget.pool_blocks == budget.hot_tokens == 1000


@pytest.mark.parametrize(("tokens", "alpha", "newest"), [(100, 0.0, 10), (100, 1.1, 10), (100, 0.5, 101), (-1, 0.5, 0)])
def test_an_alpha_or_window_that_cannot_be_is_refused(tokens, alpha, newest):
    with pytest.raises(ValueError, match=r"alpha must lie in \(0, 1\]"):
        alpha_budget(tokens, alpha, sink_blocks=1, newest_tokens=newest)


def test_emergency_begins_at_once_ends_after_calm_and_says_why():
    waited, heard = [], []
    link = Link(100.0, burst=10, clock=lambda: 0.0, sleep=waited.append)
    mode = EmergencyMode(
        Settings(0.2, 8, 1.0),
        EmergencyConfig(batch=20, calm_steps=3),
        link=link,
        listener=heard.append,
    )
    assert mode.update(20, 0.4) == []
    events = mode.update(21, 0.05)
    assert {(e.what, e.before, e.after) for e in events} == {
        ("alpha", 0.2, 0.15), ("bits", 8, 4), ("link_share", 1.0, 0.7)
    }  # fmt: skip
    assert all("batch 21 is above 20" in e.reason and "5.0%" in e.reason for e in events)
    assert mode.update(25, 0.155) == []  # too small a change to move blocks for
    assert [(e.what, e.after) for e in mode.update(25, 0.6)] == [("alpha", 0.25)]
    link.take(10)
    link.take(7)
    assert waited == [pytest.approx(0.1)]  # 7 bytes at 70 bytes/s
    assert mode.update(20, 0.2) == mode.update(5, 0.2) == []
    assert mode.active
    assert mode.update(21, 0.25) == []  # the load came back before the calm was over
    for _ in range(2):
        assert mode.update(1, 0.2) == []
    ended = mode.update(1, 0.2)
    assert not mode.active
    assert mode.settings == Settings(0.2, 8, 1.0)
    assert all("at or below 20 for 3 steps" in e.reason for e in ended)
    assert len(heard) == 3 + 1 + len(ended)
    link.take(10**9)  # the cap is lifted
    assert len(waited) == 1


def test_a_link_learns_its_rate_from_the_fastest_transfer():
    waited = []
    link = Link(burst=100, clock=lambda: 0.0, sleep=waited.append)
    link.cap(0.5)
    link.take(10**6)  # nothing is known yet
    link.measured(1000, 2.0)
    link.take(100)
    link.take(250)
    assert waited == [pytest.approx(100 / 250)]
    link.measured(1000, 1.0)
    link.measured(1000, 4.0)  # a slow transfer says nothing about the link
    assert link.rate == 1000
    assert Link(10.0, burst=1).rate == 10.0


@pytest.mark.parametrize("make", [lambda: Link(0.0), lambda: Link().cap(0.0), lambda: Link().cap(1.1)])
def test_a_link_without_a_rate_or_share_is_refused(make):
    with pytest.raises(ValueError, match="of a link must"):
        make()


@given(st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 3)), min_size=1, max_size=40))
def test_no_mix_of_transfers_exceeds_the_rate(transfers):
    now = [0.0]
    bucket = TokenBucket(1000.0, 2000, clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    sent = largest = 0
    for nbytes, pause in transfers:
        now[0] += pause
        bucket.take(nbytes)
        sent, largest = sent + nbytes, max(largest, nbytes)
        assert sent <= 2000 + 1000.0 * now[0] + largest + 1e-6


def test_a_bucket_that_is_full_does_not_make_anyone_wait():
    bucket = TokenBucket(10.0, 100, clock=lambda: 0.0)
    assert bucket.reserve(100) == 0.0
    assert bucket.reserve(1) == pytest.approx(0.1)


def test_warm_up_places_what_the_prompt_attended_to_and_prefers_the_newer_on_a_tie():
    shares = np.array([[0.9, 0.0, 0.3, 0.0, 0.2, 0.0, 0.5, 0.5]], np.float32)
    placed = important_blocks(shares, 4, sink_blocks=1, recent_blocks=2, blocks=8)
    assert placed.tolist() == [[2, 4, 5, 3]]
    assert important_blocks(shares, 7, sink_blocks=1, recent_blocks=2, blocks=8)[0, 5:].tolist() == [-1, -1]


def test_later_prompt_queries_weigh_more():
    shares = np.zeros((1, 16, 2), np.float32)
    shares[0, :8, 0] = shares[0, 8:, 1] = 1
    first, second = prompt_shares(shares)[0]
    assert second > 2 * first
    assert first + second == pytest.approx(1)
    with pytest.raises(ValueError, match="16 to 64 queries, not 8"):
        prompt_shares(shares[:, :8])


def changing(per_step, queries=16, width=6):
    """Selections [P, N, width]: stream n replaces its ``per_step[n]`` oldest blocks by new ones at every query."""
    rows = [np.arange(queries)[:, None] * change + np.arange(width) for change in per_step]
    return np.stack(rows, axis=1).astype(np.int32)


def test_the_pool_is_divided_by_how_fast_selections_change():
    shares = pool_shares(changing([0, 1, 2, 4]), 4 * 10, most=60)
    assert shares.sum() == 40
    assert shares[0] == 6  # always the same six blocks: nothing beyond them is of use
    spare = shares - 6
    assert spare[1] < spare[2] < spare[3]
    assert spare[3] == pytest.approx(4 * spare[1], abs=2)


def test_a_stream_gets_no_more_of_the_pool_than_it_has_blocks():
    shares = pool_shares(changing([1, 1, 6]), 3 * 20, most=24)
    assert shares.tolist() == [18, 18, 24]
    assert pool_shares(changing([1, 1, 6]), 3 * 50, most=24).tolist() == [24, 24, 24]


def test_a_pool_below_the_selections_is_divided_by_their_size():
    chosen = changing([0, 5, 1])
    chosen[:, 2, 3:] = -1
    assert pool_shares(chosen, 10, most=60).tolist() == [4, 4, 2]


@given(
    change=st.lists(st.integers(0, 6), min_size=1, max_size=12),
    pool=st.integers(1, 600),
    most=st.integers(6, 60),
)
def test_pool_shares_add_up_and_stay_within_what_a_stream_can_use(change, pool, most):
    shares = pool_shares(changing(change), pool, most)
    assert shares.sum() == min(pool, most * len(change))
    assert shares.min() >= 0
    assert shares.max() <= most


def test_one_query_does_not_say_how_a_selection_changes():
    with pytest.raises(ValueError, match="two queries or more"):
        pool_shares(changing([1], queries=1), 10, 20)


@given(st.sets(st.integers(0, 200), max_size=40), st.integers(0, 4))
def test_coalesced_reads_cover_what_is_wanted_and_bridge_no_more_than_allowed(wanted, bridge):
    reads = coalesce(np.array(sorted(wanted), np.int64), bridge)
    covered = [place for first, count in reads for place in range(first, first + count)]
    assert len(set(covered)) == len(covered)
    assert wanted <= set(covered)
    for (first, count), (following, _) in pairwise(reads):
        assert following - (first + count) > bridge
    if bridge == 0:
        assert set(covered) == wanted


def test_blocks_selected_together_are_packed_together():
    rng = np.random.default_rng(3)
    topics = rng.permutation(60).reshape(6, 10)
    steps = np.stack([topics[rng.integers(6)] for _ in range(80)]).astype(np.int32)
    place = pack_together(co_selection(steps, 60))
    assert sorted(place.tolist()) == list(range(60))
    packed, plain = read_cost(steps, place), read_cost(steps, np.arange(60))
    assert packed.reads_per_step == 1
    assert plain.reads_per_step > 5
    assert (packed.read, plain.read) == (packed.used, plain.used)
    bridged = read_cost(steps, np.arange(60), bridge=3)
    assert bridged.read > bridged.used


@given(st.integers(0, 12))
def test_blocks_never_seen_together_stay_in_order(blocks):
    place = pack_together(co_selection(np.full((1, 2), -1, np.int32), blocks))
    assert place.tolist() == list(range(blocks))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 12), st.sampled_from([0, 2.5, 100]))
def test_a_packed_order_holds_every_block_once(seed, blocks, steps, neighbours):
    rng = np.random.default_rng(seed)
    wanted = np.stack([rng.permutation(blocks)[: min(6, blocks)] for _ in range(steps)]).astype(np.int32)
    together = co_selection(wanted, blocks)
    place = pack_together(together, neighbours)
    assert sorted(place.tolist()) == list(range(blocks))
    order = rng.permutation(steps)  # in whatever order the steps came
    np.testing.assert_array_equal(pack_together(co_selection(wanted[order], blocks), neighbours), place)
    if neighbours > steps:
        assert place.tolist() == list(range(blocks))


def test_among_equals_the_closest_pair_is_joined_first_then_the_lower_one():
    together = np.zeros((7, 7), np.int64)
    for one, other in ((0, 3), (0, 5), (0, 2), (4, 6)):
        together[one, other] = together[other, one] = 4
    # 0 joins 2 and 3, the closest; 5 comes too late and stays alone, like 1; chains follow by their lower ends.
    assert np.argsort(pack_together(together)).tolist() == [1, 2, 0, 3, 4, 6, 5]
