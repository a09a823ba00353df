"""Traces: the file format, replays against a slow reference, Belady's bound, window plans."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from nearkv import policy
from nearkv.cli.trace import app
from nearkv.policy import Lookahead
from nearkv.policy.hit_rate import HYSTERESIS
from nearkv.tiers import knapsack
from nearkv.tiers.window_scaling import WindowPlan, WindowProfile, apportion, plan, uniform, window_blocks
from nearkv.trace.belady import Belady
from nearkv.trace.format import TraceError, load, pack_priority, save, unpack_priority
from nearkv.trace.profile import profile_windows
from nearkv.trace.rank import rank
from nearkv.trace.replay import capacity, replay, replay_all, warm_shares

from tests.host.traces import synthetic


def test_a_trace_survives_the_file(tmp_path):
    trace = synthetic()
    save(trace, tmp_path / "a.trace")
    back = load(tmp_path / "a.trace")
    assert back.info == trace.info
    for name in ("ranked", "tokens", "prompt"):
        np.testing.assert_array_equal(getattr(back, name), getattr(trace, name))
    np.testing.assert_allclose(back.priority.astype(float), trace.priority, rtol=4e-4, atol=0.5)
    assert [p.name for p in tmp_path.iterdir()] == ["a.trace"]


@given(st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=50))
def test_packed_priorities_keep_their_order_and_zero(values):
    priority = np.sort(np.array(values, np.uint32))
    back = unpack_priority(pack_priority(priority))
    assert (np.diff(back.astype(np.int64)) >= 0).all()
    assert ((priority == 0) == (back == 0)).all()


@pytest.mark.parametrize("damage", ["missing", "text", "cut", "version", "field", "shape", "steps", "info"])
def test_a_damaged_trace_is_named(tmp_path, damage):
    path, trace = tmp_path / "bad.trace", synthetic()
    if damage == "text":
        path.write_text("hello")
    elif damage != "missing":
        changed = {
            "version": replace(trace, info=replace(trace.info, version=9)),
            "shape": replace(trace, info=replace(trace.info, layers=3)),
            "steps": replace(trace, info=replace(trace.info, prompt_steps=len(trace.tokens))),
            "info": replace(trace, info=replace(trace.info, selected_blocks=0)),
        }.get(damage, trace)
        save(changed, path)
        if damage == "cut":
            path.write_bytes(path.read_bytes()[:-200])
        if damage == "field":
            with np.load(path) as file:
                fields = {name: file[name] for name in file.files if name != "prompt"}
            np.savez(path.with_suffix(".npz"), **fields)
            path.with_suffix(".npz").rename(path)
    with pytest.raises(TraceError, match=r"bad\.trace"):
        load(path)


def test_a_block_index_that_does_not_fit_leaves_no_file(tmp_path):
    trace = synthetic()
    trace.ranked[0, 0, 0, 0] = 70_000
    with pytest.raises(TraceError, match="too long"):
        save(trace, tmp_path / "a.trace")
    assert not list(tmp_path.iterdir())


def test_a_ranking_starts_with_what_is_always_in():
    share = np.array([[0.1, 0.3, 0.05, 0.2, 0.3, 0.05, 0.0, 0.9]], np.float32)
    ranked, priority = rank(share, np.array([7]), 1, 2, 9, 3)
    assert ranked[0].tolist() == [0, 5, 6, 1, 4, 3, 2, -1, -1]
    assert priority[0, 3] == round(float(np.float32(0.3)) * 3 * 2**24)
    assert priority[0, -1] == 0


def reference(trace, name, pool):
    """One stream at a time, sets and sorting: what a replay must do, as plainly as it can be said."""
    info, always = trace.info, trace.info.sink_blocks + trace.info.recent_blocks
    misses = 0
    for layer in range(info.layers):
        for stream in range(info.streams):
            subject = policy.create(name)
            count = -(-trace.tokens.astype(int) // 32)
            newest = count[info.prompt_steps] - 1 - info.recent_blocks
            resident = list(range(newest, max(newest - pool, info.sink_blocks - 1), -1))

            def keep(candidates, subject=subject):
                values = subject.values(0, np.array([candidates], np.int32))[0].tolist()
                kept = [b for _, b in sorted((-v, b) for v, b in zip(values, candidates, strict=True))][:pool]
                if isinstance(subject, policy.UsesPlacement):
                    subject.placed(0, np.array([kept], np.int32))
                return kept

            if isinstance(subject, policy.UsesPlacement):
                subject.placed(0, np.array([resident], np.int32))
            for t in range(info.prompt_steps, len(trace.tokens)):
                if t > info.prompt_steps and count[t] > count[t - 1]:
                    resident = keep([*resident, int(count[t]) - 1 - info.recent_blocks])
                row, value = trace.ranked[t, layer, stream][None], trace.priority[t, layer, stream][None]
                chosen = row[0, always : always + info.selected_blocks].tolist()
                missed = [b for b in chosen if b not in resident]
                misses += len(missed)
                if isinstance(subject, policy.UsesRanking):
                    subject.rank(0, row, value)
                width = always + info.selected_blocks
                subject.observe(0, row[:, :width], value[:, :width])
                resident = keep([*resident, *missed])
    return misses


@pytest.mark.parametrize("name", policy.names())
def test_a_replay_does_what_the_plain_reference_does(name):
    trace = synthetic(seed=3, steps=80)
    result = replay(trace, policy.create(name), 9)
    assert result.needed == 80 * 4 * 6
    assert result.needed - result.hits == reference(trace, name, 9)
    assert sum(result.misses_by_step) == result.misses_by_stream.sum() == result.needed - result.hits
    assert result.bytes_from_drive == (result.needed - result.hits) * 4096


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), pool=st.integers(6, 30), warm=st.booleans())
def test_no_policy_beats_belady(seed, pool, warm):
    results = replay_all(synthetic(seed, steps=40), pool, warm=warm)
    best = results.pop("belady")
    assert set(results) == set(policy.names())
    for result in results.values():
        assert result.hits <= best.hits
        assert result.pool_blocks == pool * 4


class Placements:
    """Wraps a policy and records every placement that the replay made."""

    def __init__(self, name):
        self._inner, self.seen = policy.create(name), []
        self.observe, self.values, self.forget = self._inner.observe, self._inner.values, self._inner.forget

    def placed(self, layer, resident):
        self.seen.append(resident.copy())
        if isinstance(self._inner, policy.UsesPlacement):
            self._inner.placed(layer, resident)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(policy.names()),
    quota=st.lists(st.integers(0, 20), min_size=4, max_size=4).filter(any),
    warm=st.booleans(),
)
def test_the_pool_never_exceeds_its_quota_nor_holds_a_block_twice(seed, name, quota, warm):
    spy = Placements(name)
    shares = np.array(quota, np.int64)
    replay(synthetic(seed, steps=40), spy, shares.reshape(2, 2), warm=warm)
    for resident in spy.seen:
        assert ((resident >= 0).sum(axis=1) <= shares).all()
        for row in resident:
            held = row[row >= 0].tolist()
            assert len(set(held)) == len(held)
            assert 0 not in held  # the sink has a slot of its own


def test_warm_up_and_lookahead_miss_less_where_popularity_drifts_slowly():
    totals = {}
    for seed in range(6):
        trace = synthetic(seed, steps=60)
        for name, warm in (("lru", False), ("lru", True), ("lookahead", False)):
            result = replay(trace, policy.create(name), 12, warm=warm)
            cold, all_misses = totals.get((name, warm), (0, 0))
            totals[name, warm] = (cold + result.cold_misses, all_misses + result.needed - result.hits)
    assert totals["lru", True][0] < totals["lru", False][0]
    assert totals["lookahead", False][1] < totals["lru", False][1]


def test_warm_up_gives_more_of_the_pool_to_streams_that_change():
    trace = synthetic(seed=4, steps=120, layers=3)
    trace.ranked[:, 0] = trace.ranked[16, 0]  # a layer that always selects the same
    shares = warm_shares(trace, 10)
    assert shares.shape == (3, 2)
    assert shares.sum() == 10 * 6
    assert shares[0].max() < shares[1:].min()
    assert len(np.unique(warm_shares(trace, 15)[1:])) > 1
    equal, divided = (replay(trace, Lookahead(), pool, warm=True) for pool in (10, shares))
    assert divided.hits > equal.hits
    plan = np.array([[4, 4], [16, 15], [11, 10]])
    both = warm_shares(trace, plan)
    assert both.sum() == plan.sum()
    assert (np.abs(2 * both - plan - warm_shares(trace, 10)) <= 1).all()
    with pytest.raises(TraceError, match=r"plan is for \[2, 2\].*trace has \[3, 2\]"):
        warm_shares(trace, plan[:2])


def test_hysteresis_saves_promotions_for_few_hits():
    trace = synthetic(seed=9, steps=150)
    plain, damped = (replay(trace, policy.HitRate(hysteresis=h), 10) for h in (0, HYSTERESIS))
    assert damped.promotions < 0.95 * plain.promotions
    assert damped.hits > 0.98 * plain.hits


def test_belady_by_hand():
    trace = synthetic(steps=4, layers=1, streams=1, selected=1)
    trace.ranked[16:, 0, 0, 3] = [10, 11, 10, 11]
    # One slot: 10 is fetched and kept for step 2, 11 is fetched and left out.
    result = replay(trace, Belady(trace, 16), 1)
    assert (result.hits, result.promotions) == (1, 1)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 6), st.integers(0, 20)), min_size=2, max_size=4), min_size=1, max_size=5
    ),
    st.integers(0, 12),
)
def test_the_exact_knapsack_is_optimal_and_greedy_close_below(groups, extra):
    width = max(map(len, groups))
    cost = np.array([[c for c, _ in (g * width)[:width]] for g in groups], np.int64)
    benefit = np.array([[b for _, b in (g * width)[:width]] for g in groups], np.int64)
    limit = int(cost.min(axis=1).sum()) + extra
    rows = np.arange(len(groups))
    best = -1
    for choice in np.ndindex(*[width] * len(groups)):
        if cost[rows, list(choice)].sum() <= limit:
            best = max(best, int(benefit[rows, list(choice)].sum()))
    exact, greedy = knapsack.exact(cost, benefit, limit), knapsack.greedy(cost, benefit, limit)
    assert cost[rows, exact].sum() <= limit
    assert cost[rows, greedy].sum() <= limit
    assert benefit[rows, exact].sum() == best
    start = benefit[rows, cost.argmin(axis=1)].sum()
    assert start <= benefit[rows, greedy].sum() <= best


def test_greedy_is_within_two_percent_of_exact_on_a_profile():
    profile = profile_windows([synthetic(steps=120, layers=4, streams=3)], windows=(1, 2, 4, 8, 16))
    cost, hits = profile.blocks.reshape(12, -1), profile.hits.reshape(12, -1)
    for limit in range(int(cost.min(axis=1).sum()), int(cost.max(axis=1).sum()), 17):
        rows = np.arange(12)
        greedy = hits[rows, knapsack.greedy(cost, hits, limit)].sum()
        assert greedy >= 0.98 * hits[rows, knapsack.exact(cost, hits, limit)].sum()


def test_too_small_a_limit_is_refused():
    with pytest.raises(ValueError, match="cheapest choice costs 3"):
        knapsack.exact(np.array([[3, 4]]), np.array([[1, 2]]), 2)


def test_window_blocks_counts_distinct_blocks():
    chosen = np.array([[[1, 2]], [[2, 3]], [[3, 4]], [[3, 4]]], np.int32)
    assert window_blocks(chosen, 1).tolist() == [2]
    assert window_blocks(chosen, 2).tolist() == [-(-(2 + 3 + 3 + 2) // 4)]
    assert window_blocks(np.repeat(chosen, 2, axis=1), 3).tolist() == [-(-(2 + 3 + 4 + 3) // 4)] * 2
    more = np.array([[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]] * 8, np.int32)  # window 1: 2, window 2: 4 but at first
    assert [int(window_blocks(more, window)[0]) for window in (1, 1.25, 1.75, 2)] == [2, 3, 4, 4]


@settings(max_examples=25, deadline=None)
@given(pool=st.integers(40, 600), exact=st.booleans(), seed=st.integers(0, 50))
def test_a_plan_uses_the_whole_pool_and_lies_between_the_common_window_and_the_best(pool, exact, seed):
    rng = np.random.default_rng(seed)
    blocks = np.cumsum(rng.integers(1, 6, (2, 3, 4)), axis=2)
    hits = np.cumsum(rng.integers(0, 50, (2, 3, 4)), axis=2)
    found = plan(WindowProfile("model", (1, 2, 4, 8), blocks, hits), pool, exact=exact)
    assert found.total == pool
    assert found.blocks.min() >= 1
    assert found.windows.min() >= 1
    assert found.windows.max() <= 8


def test_streams_alike_get_almost_the_same_share():
    blocks, hits = np.array([[[4, 8, 16]] * 3] * 2), np.array([[[10, 30, 40]] * 3] * 2)
    found = plan(WindowProfile("model", (1, 2, 4), blocks, hits), 6 * 12)
    # The knapsack has to give three of them 8 and three 16.
    assert (np.abs(found.blocks - 12) <= 2).all()


def test_profiles_of_several_texts_add_up_and_other_models_are_refused():
    one, two = synthetic(seed=1), synthetic(seed=2)
    windows = (1, 2, 4)
    alone = [profile_windows([trace], windows) for trace in (one, two)]
    together = profile_windows([one, two], windows)
    np.testing.assert_array_equal(together.hits, alone[0].hits + alone[1].hits)
    np.testing.assert_array_equal(together.blocks, -(-(alone[0].blocks + alone[1].blocks) // 2))
    with pytest.raises(TraceError, match="agree in model"):
        profile_windows([one, replace(two, info=replace(two.info, model="other"))], windows)


def test_a_plan_gives_more_hits_than_equal_shares_or_windows_on_the_profiled_trace(tmp_path):
    trace = synthetic(seed=5, steps=120, layers=3, streams=3)
    trace.ranked[:, 0] = trace.ranked[16, 0]  # a layer that always selects the same needs no pool beyond that
    profile = profile_windows([trace], windows=(1, 1.5, 2, 4, 8, 16))
    scaled = plan(profile, 9 * 12)
    assert scaled.total == 9 * 12
    equal, planned = (replay(trace, Lookahead(), pool, warm=True) for pool in (12, scaled.blocks))
    assert planned.hits > equal.hits
    same_window = uniform(profile, 9 * 12)
    assert len(np.unique(same_window.windows)) == 1
    assert replay(trace, Lookahead(), same_window.blocks, warm=True).hits <= planned.hits

    scaled.save(tmp_path / "plan.json")
    back = WindowPlan.load(tmp_path / "plan.json", "model")
    np.testing.assert_array_equal(back.blocks, scaled.blocks)
    with pytest.raises(ValueError, match="made for model, not for other"):
        WindowPlan.load(tmp_path / "plan.json", "other")
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(ValueError, match="not a window plan"):
        WindowPlan.load(tmp_path / "plan.json", "model")


def test_capacity_counts_sink_and_recent_in_the_fraction():
    trace = synthetic()  # 61 blocks at the first step
    assert capacity(trace, 0.5) == 30 - 3
    with pytest.raises(TraceError, match=r"needs 0\.066 to 1"):
        capacity(trace, 0.05)


@pytest.mark.parametrize("blocks", [13, 60, 61, 62, 249, 250, 1023])
def test_the_least_fraction_that_a_refusal_names_works(blocks):
    trace = synthetic(layers=1, streams=1, steps=2, first_tokens=32 * blocks)
    with pytest.raises(TraceError) as refusal:
        capacity(trace, 0.001)
    least = float(re.search(r"needs ([0-9.]+) to 1", str(refusal.value))[1])
    assert capacity(trace, least) == 1


def test_the_command_replays_all_policies(tmp_path):
    save(synthetic(), tmp_path / "t.trace")
    out, picture = tmp_path / "out.json", tmp_path / "out.svg"
    arguments = ["replay", str(tmp_path / "t.trace"), "--policy", "all", "--dram-fraction", "0.3", "--json", str(out)]
    result = CliRunner().invoke(app, [*arguments, "--plot", str(picture)])
    assert result.exit_code == 0, result.output
    rows = json.loads(out.read_text())
    assert set(rows) == {*policy.names(), "belady"}
    for row in rows.values():
        assert {"hit_rate", "bytes_from_drive", "promotions", "demotions", "belady_hit_rate"} <= set(row)
        assert 0 < row["hit_rate"] <= row["belady_hit_rate"] < 1
    assert picture.read_text().startswith("<?xml")


def test_a_pool_that_follows_the_decode_misses_less_and_takes_no_block_more(tmp_path):
    trace = synthetic(seed=4, steps=120, layers=3, streams=2)
    trace.ranked[20:, 0] = trace.ranked[20, 0]  # a layer that changes only while the prompt is read
    save(trace, tmp_path / "t.trace")
    found = []
    for more in ([], ["--redivide", "8"]):
        out = tmp_path / "out.json"
        arguments = ["replay", str(tmp_path / "t.trace"), "--policy", "lru", "--warm", "--json", str(out), *more]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        found.append(json.loads(out.read_text())["lru"])
    still, followed = found
    assert followed["bytes_from_drive"] < 0.95 * still["bytes_from_drive"]
    assert followed["pool_blocks"] == still["pool_blocks"]


def test_the_command_plans_windows_and_replays_them(tmp_path):
    save(synthetic(), tmp_path / "t.trace")
    planned = CliRunner().invoke(
        app, ["windows", *[str(tmp_path / "t.trace")] * 2, str(tmp_path / "p.json"), "--dram-fraction", "0.4"]
    )
    assert planned.exit_code == 0, planned.output
    assert "84 of 84" in planned.output
    arguments = ["replay", str(tmp_path / "t.trace"), "--policy", "lookahead", "--windows", str(tmp_path / "p.json")]
    replayed = CliRunner().invoke(app, arguments)
    assert replayed.exit_code == 0, replayed.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "none.trace"], "no such trace"),
        (["replay", "t.trace", "--policy", "best"], "no policy is called 'best'; there are: all, belady, fifo"),
        (["replay", "t.trace", "--dram-fraction", "0.01"], "leaves no pool"),
        (["windows", "t.trace", "p.json", "--dram-fraction", "0.07"], "cheapest choice costs"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    save(synthetic(), "t.trace")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(0, 300))
def test_slots_are_apportioned_by_the_plan_whole_and_without_a_step_back(blocks, slots):
    weights = np.array(blocks, np.int64)[None]
    shares = apportion(WindowPlan("model", weights, weights), slots)
    assert shares.sum() == slots
    more = apportion(WindowPlan("model", weights, weights), slots + 1)
    assert (more >= shares).all()
    if weights.sum():
        exact = slots * weights / weights.sum()
        assert (np.abs(shares - exact) <= len(blocks)).all()
    else:
        assert shares.max() - shares.min() <= 1
