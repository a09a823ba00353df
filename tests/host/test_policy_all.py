"""Every policy behind the seam: shapes, padding, forgetting, and that values depend on nothing but what was shown."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv import policy
from nearkv.policy import UsesPlacement, UsesRanking
from nearkv.policy.lookahead import FAST, SLOW
from nearkv.policy.pin_newest import newest_first

STREAMS, SELECTED = 3, 4


def steps(seed, count=12, blocks=40):
    """Selections [S, k] with -1 padding and falling priorities."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        chosen = np.stack([rng.permutation(blocks)[:SELECTED] for _ in range(STREAMS)]).astype(np.int32)
        chosen[rng.random(chosen.shape) < 0.15] = -1
        yield chosen, np.sort(rng.integers(1, 2**24, chosen.shape), axis=1)[:, ::-1].astype(np.uint32)


def run(subject, sequence, layer=0):
    for chosen, priority in sequence:
        if isinstance(subject, UsesRanking):
            subject.rank(layer, chosen, priority)
        subject.observe(layer, chosen, priority)
        if isinstance(subject, UsesPlacement):
            subject.placed(layer, chosen)


@pytest.mark.parametrize("name", policy.names())
def test_values_have_the_shape_of_the_blocks_and_padding_is_lowest(name):
    subject = policy.create(name)
    run(subject, steps(1))
    blocks = np.array([[0, 5, -1, 39, 700]] * STREAMS, np.int32)
    values = subject.values(0, blocks)
    assert values.shape == blocks.shape
    assert values.dtype == np.int64
    assert (values[:, 2] == -1).all()
    assert (np.delete(values, 2, axis=1) >= 0).all()


@pytest.mark.parametrize("name", policy.names())
def test_layers_and_streams_do_not_disturb_each_other(name):
    both, alone = policy.create(name), policy.create(name)
    blocks = np.tile(np.arange(40, dtype=np.int32), (STREAMS, 1))
    for (first, second), priority in (((a, b), p) for (a, p), (b, _) in zip(steps(2), steps(3), strict=True)):
        run(both, [(first, priority)], layer=0)
        run(both, [(second, priority)], layer=7)
        run(alone, [(first, priority)], layer=0)
    np.testing.assert_array_equal(both.values(0, blocks), alone.values(0, blocks))


@pytest.mark.parametrize("name", policy.names())
def test_a_forgotten_stream_is_like_a_new_one_and_others_stay(name):
    subject = policy.create(name)
    run(subject, steps(4))
    blocks = np.tile(np.arange(40, dtype=np.int32), (STREAMS, 1))
    before = subject.values(0, blocks)
    subject.forget(0, 1)
    after = subject.values(0, blocks)
    assert len(set(after[1])) == 1
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])


def test_an_unknown_policy_is_answered_with_the_names():
    with pytest.raises(ValueError, match="no policy is called 'best'; there are: fifo, hit_rate, lfu, lookahead, lru"):
        policy.create("best")


def one(*blocks):
    return np.array([blocks], np.int32)


def test_lfu_counts_and_breaks_ties_by_recency():
    subject = policy.create("lfu")
    for chosen in (one(1, 2), one(1, 3), one(4, 3)):
        subject.observe(0, chosen, np.ones((1, 2), np.uint32))
    assert np.argsort(-subject.values(0, one(1, 2, 3, 4))[0]).tolist() == [2, 0, 3, 1]


def test_fifo_evicts_what_came_in_first_however_often_it_is_used():
    subject = policy.create("fifo")
    for resident in (one(1, -1, -1), one(1, 2, -1), one(1, 2, 3)):
        subject.observe(0, one(1), np.ones((1, 1), np.uint32))
        subject.placed(0, resident)
    subject.observe(0, one(1), np.ones((1, 1), np.uint32))
    assert np.argsort(subject.values(0, one(4, 3, 2, 1))[0]).tolist() == [3, 2, 1, 0]


def test_lookahead_evicts_the_lowest_current_attention_of_the_window():
    subject = policy.Lookahead(window=2)
    priority = np.array([[900, 500, 100]], np.uint32)
    for chosen in (one(1, 2, 3), one(4, 5, 6), one(4, 7, 8)):
        subject.rank(0, one(4, 6, 5), priority)
        subject.observe(0, chosen, priority)
    # Inside the window: 4 (900 throughout), 6 (500, ranked throughout), 7 (500 once), 5 (100), 8 (100 once).
    values = subject.values(0, one(4, 6, 7, 5, 8, 1))[0]
    assert (np.diff(values) < 0).all()
    inside, outside = values[:-1], values[-1:]
    assert inside.min() - outside.max() > 1 << 61


def test_a_block_that_was_ranked_and_selected_counts_once():
    twice, once = policy.Lookahead(), policy.Lookahead()
    priority = np.array([[70, 7]], np.uint32)
    for _ in range(3):
        twice.rank(0, one(1, 2), priority)
        for subject in (twice, once):
            subject.observe(0, one(1, 2), priority)
    np.testing.assert_array_equal(twice.values(0, one(1, 2)), once.values(0, one(1, 2)))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2**25), min_size=1, max_size=40))
def test_lookahead_follows_the_running_means_of_the_root_of_a_share(shares):
    subject, means = policy.Lookahead(), {FAST: 0.0, SLOW: 0.0}
    for share in shares:
        if share:  # a step of share 0 does not report the block
            subject.observe(0, one(3), np.array([[share]], np.uint32))
        else:
            subject.observe(0, one(-1), np.zeros((1, 1), np.uint32))
        means = {decay: decay * mean + (1 - decay) * share**0.5 for decay, mean in means.items()}
    value = int(subject.values(0, one(3))[0, 0]) & ((1 << 62) - 1)
    assert value / 2**20 == pytest.approx(sum(means.values()), rel=1e-4, abs=1e-4)


def test_lookahead_without_rankings_falls_back_to_recency():
    subject = policy.Lookahead(window=8)
    for block in (5, 3, 9):
        subject.observe(0, one(block), np.array([[7]], np.uint32))
    values = subject.values(0, one(5, 3, 9))[0]
    assert values[0] < values[1] < values[2]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_hit_rates_stay_within_16_bits_and_follow_their_recurrence(pattern):
    subject = policy.HitRate(hysteresis=0)
    fast = slow = 0
    for hit in pattern:
        subject.observe(0, one(3 if hit else -1), np.ones((1, 1), np.uint32))
        fast = fast - (fast >> 1) + (32767 if hit else 0)
        slow = slow - (slow >> 5) + (2047 if hit else 0)
        assert 0 <= fast <= 65535
        assert 0 <= slow <= 65535
    assert subject.values(0, one(3))[0, 0] == fast + slow


def test_the_hit_rate_table_takes_an_eighth_of_a_byte_per_token():
    subject = policy.HitRate()
    subject.observe(0, np.array([[1023]], np.int32), np.ones((1, 1), np.uint32))
    assert subject.table_bytes / (1024 * 32) == 1 / 8


def test_a_newcomer_must_exceed_a_resident_by_the_hysteresis():
    subject = policy.HitRate(hysteresis=1000)
    for _ in range(3):
        subject.observe(0, one(1, 2), np.ones((1, 2), np.uint32))
    subject.placed(0, one(2))
    values = subject.values(0, one(1, 2))[0]
    assert values[1] - values[0] == 1000
    subject.placed(0, one(1))
    values = subject.values(0, one(1, 2))[0]
    assert values[0] - values[1] == 1000


def test_a_cold_block_whose_rate_jumps_is_promoted_at_once():
    subject = policy.HitRate()
    for _ in range(4):
        subject.observe(0, one(1), np.ones((1, 1), np.uint32))
        subject.placed(0, one(1))
    for _ in range(30):  # block 1 is no longer wanted
        subject.observe(0, one(-1), np.ones((1, 1), np.uint32))
    subject.observe(0, one(2), np.ones((1, 1), np.uint32))
    values = subject.values(0, one(1, 2))[0]
    assert values[1] > values[0]


def test_the_newest_blocks_are_pinned_whatever_the_policy_says():
    pins = policy.PinNewest(0.5, streams=2)
    values = np.array([[50, 1, 2, 9], [5, 4, 3, -1]])
    blocks = np.array([[3, 8, 9, 7], [0, 1, 2, -1]], np.int32)
    lifted = pins.lift(values, blocks, np.array([4, 2]))
    assert np.argsort(-lifted[0]).tolist() == [2, 1, 0, 3]
    assert np.argsort(-lifted[1]).tolist() == [2, 0, 1, 3]
    # The newest block was seen above: it need not come again to bound what is pinned.
    assert pins.lift(values[:, :1], blocks[:, :1], np.array([4, 2])).tolist() == values[:, :1].tolist()


def test_newest_blocks_come_before_a_ranking_and_once():
    assert newest_first(np.array([4, 9, 1, -1]), newest=9, count=3, oldest=1).tolist() == [9, 8, 7, 4, 1, -1]
    assert newest_first(np.array([2, 1]), newest=2, count=8, oldest=1).tolist() == [2, 1]


@pytest.mark.parametrize("name", policy.names())
def test_padding_leaves_no_trace_on_a_block_that_appears_later(name):
    subject, unpadded = policy.create(name), policy.create(name)
    for _ in range(3):
        for each, blocks in ((subject, one(1, -1)), (unpadded, one(1))):
            each.observe(0, np.repeat(blocks, STREAMS, axis=0), np.ones((STREAMS, blocks.shape[1]), np.uint32))
    later = np.tile(np.arange(300, dtype=np.int32), (STREAMS, 1))
    np.testing.assert_array_equal(subject.values(0, later), unpadded.values(0, later))


REFUSED = [lambda: policy.Lookahead(0), lambda: policy.HitRate(-1), lambda: policy.PinNewest(1.5, 1)]


@pytest.mark.parametrize("make", REFUSED)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match=r"window|negative|pin_newest"):
        make()
