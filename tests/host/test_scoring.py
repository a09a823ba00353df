"""Scoring in the cache: who scores a block and which summaries propose it never changes more than it says it does."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nearkv
from nearkv.cache.balance import Balance
from nearkv.cache.buffers import aligned_bytes, token_view
from nearkv.cache.candidates import FirstStage, FirstStageStats
from nearkv.cache.extents import ExtentAllocator
from nearkv.cache.geometry import Geometry
from nearkv.cache.host_scoring import ScoreCopies
from nearkv.cache.runs import RunIndex, ScoreRun, span_runs
from nearkv.cache.scoring import Beside, LayerScorer, Question
from nearkv.cache.stats import CacheStats
from nearkv.cache.store import LayerStore
from nearkv.selectors import SUMMARIES
from nearkv_drivers.device import StorageError

from tests.host.answers import answer, smallest_limit
from tests.host.memory_device import Done, MemoryDevice

DIM, GROUP = 32, 2


@dataclasses.dataclass
class Streams:
    """Sealed streams of random keys on a device, and a question about them."""

    device: MemoryDevice
    store: LayerStore
    blocks: list[list[int]]
    seed: int

    def __init__(self, seed, parts, bits=4, keepers=()):
        rng = np.random.default_rng(seed)
        g = Geometry(1, len(parts), DIM, torch.float32, bits)
        self.device = MemoryDevice()
        self.store = LayerStore(0, g, self.device, ExtentAllocator(), 0)
        self.store.keepers += keepers
        self.rng, self.geometry = rng, g
        for stream, counts in enumerate(parts):
            centre = rng.normal(size=DIM)
            for count in counts:
                kv = aligned_bytes(count * g.kv_block_bytes).reshape(1, count, -1)
                pairs = rng.normal(size=(count, 32, 2, DIM)) * rng.gamma(2, size=(count, 1, 1, 1)) + centre
                one = Geometry(1, 1, DIM, torch.float32, bits)
                token_view(kv, one)[0, 0] = torch.from_numpy(pairs.astype(np.float32))
                self.store.seal(range(stream, stream + 1), kv, adopt=count == 1)
        self.store.settle()

    def question(self, most=6):
        s = self.geometry.streams
        sealed = self.store.sealed.copy()
        return Question(
            (self.rng.normal(size=(s, GROUP, DIM)) * 2).astype(np.float32), sealed,
            np.minimum(np.full(s, 3), sealed - 1), np.full(s, most), DIM**-0.5,
            self.rng.integers(-500, 3000, (s, GROUP)).astype(np.int32),
        )  # fmt: skip


def same(left, right):
    for one, two in zip(left, right, strict=True):
        np.testing.assert_array_equal(one.total, two.total)
        np.testing.assert_array_equal(one.bad, two.bad)
        np.testing.assert_array_equal(one.positions, two.positions)
        np.testing.assert_array_equal(one.priorities, two.priorities)


def balance(beta, **options):
    return Balance(beta, CacheStats(), Geometry(1, 1, 64, torch.float16, 4), skewed=False, **options)


PARTS = st.lists(
    st.lists(st.integers(1, 6), min_size=1, max_size=5).filter(lambda c: sum(c) > 1), min_size=1, max_size=3
)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**31), parts=PARTS, beta=st.floats(0.02, 50), held=st.none() | st.integers(0, 9),
    bits=st.sampled_from([4, 8]), damaged=st.booleans(),
)  # fmt: skip
def test_the_selection_does_not_depend_on_beta(seed, parts, beta, held, bits, damaged):
    geometry = Geometry(1, len(parts), DIM, torch.float32, bits)
    copies = ScoreCopies(geometry, held)
    streams = Streams(seed, parts, bits, [copies])
    if damaged:  # the drive's last block, which it always scores itself
        run = streams.store.streams[0].runs[-1]
        streams.device.data[run.offset + (run.blocks - 1) * geometry.score_block_bytes + 70] ^= 1
    ask = streams.question()
    alone = LayerScorer(streams.device, streams.store).score(ask)
    both = LayerScorer(streams.device, streams.store, Beside(copies, balance(beta)))
    before = streams.device.counters.blocks_scored
    same(both.score(ask), alone)
    on_drive, total = streams.device.counters.blocks_scored - before, int(streams.store.sealed.sum())
    on_host = both.beside.balance._step.host_bytes // geometry.score_block_bytes
    assert on_host + on_drive == total
    assert copies.nbytes >= int(copies.held.sum()) * geometry.score_block_bytes
    assert held is None or copies.nbytes == held * len(parts) * geometry.score_block_bytes
    assert (on_host > 0) == (held != 0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), parts=PARTS, name=st.sampled_from(sorted(SUMMARIES)), beta=st.none() | st.just(1.5))
def test_candidates_everywhere_select_what_one_stage_selects(seed, parts, name, beta):
    geometry = Geometry(1, len(parts), DIM, torch.float32, 4)
    stats = FirstStageStats()
    first = FirstStage(SUMMARIES[name], geometry, stats, most_blocks=None, loss=0.01, sink_blocks=1, layer=0)
    copies = ScoreCopies(geometry, None)
    streams = Streams(seed, parts, keepers=[first, copies])
    beside = None if beta is None else Beside(copies, balance(beta))
    two = LayerScorer(streams.device, streams.store, beside, first)
    one = LayerScorer(streams.device, streams.store)
    for _ in range(4):  # three audits and a step that is none
        first.share.fraction[:] = 1.0
        ask = streams.question()
        same(two.score(ask), one.score(ask))
    assert stats.proposed_blocks == stats.all_blocks == 4 * int(streams.store.sealed.sum())
    assert stats.audits == 3 * len(parts)
    assert stats.kept_mass == 1.0


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**31), fraction=st.floats(0.1, 0.9), rows=st.none() | st.integers(0, 12),
    name=st.sampled_from(sorted(SUMMARIES)),
)  # fmt: skip
def test_positions_are_blocks_and_only_candidates_are_scored(seed, fraction, rows, name):
    geometry = Geometry(1, 2, DIM, torch.float32, 4)
    first = FirstStage(
        SUMMARIES[name], geometry, FirstStageStats(), most_blocks=rows, loss=0.01, sink_blocks=1, layer=0
    )
    streams = Streams(seed, [[8, 1, 7], [5, 11]], keepers=[first])
    scorer = LayerScorer(streams.device, streams.store, None, first)
    ask = streams.question(most=4)
    for _ in range(5):  # the next two steps are no audits
        scorer.score(ask)
    first.share.fraction[:] = fraction
    before = streams.device.counters.blocks_scored
    proposal = first.propose(np.arange(2), ask.queries, ask.sealed, ask.tail_mass, ask.scale)
    found = scorer.score(ask)
    counts = [len(blocks) for blocks in proposal.blocks]
    assert streams.device.counters.blocks_scored - before == sum(counts)
    full = LayerScorer(streams.device, streams.store).score(dataclasses.replace(ask, most=np.full(2, 16)))
    for blocks, result, every in zip(proposal.blocks, found, full, strict=True):
        assert 0 in blocks
        assert rows is None or set(range(rows, 16)) <= set(blocks.tolist())
        assert set(result.positions.tolist()) <= set(blocks.tolist())
        assert len(result.positions) == min(4, len(blocks))
        best = [b for b in every.positions.tolist() if b in blocks][:4]
        priority = dict(zip(every.positions.tolist(), every.priorities.tolist(), strict=True))
        # Totals are those of the candidates, so near ties may swap; what is chosen is as good.
        assert sum(priority[b] for b in result.positions.tolist()) >= 0.9 * sum(priority[b] for b in best)


@pytest.mark.parametrize("name", sorted(SUMMARIES))
def test_a_streams_candidates_do_not_depend_on_the_streams_beside_it(name):
    first = FirstStage(
        SUMMARIES[name], Geometry(1, 3, DIM, torch.float32, 4), FirstStageStats(), most_blocks=None, loss=0.01,
        sink_blocks=1, layer=0,
    )  # fmt: skip
    ask = Streams(9, [[40, 1, 1], [7], [90, 20]], keepers=[first]).question()
    for _ in range(3):  # audits propose everything
        first.propose(np.arange(3), ask.queries, ask.sealed, ask.tail_mass, ask.scale)
    whole = first.propose(np.arange(3), ask.queries, ask.sealed, ask.tail_mass, ask.scale)
    assert not whole.audit
    read = 0
    for stream, blocks in enumerate(whole.blocks):
        one = np.array([stream])
        alone = first.propose(one, ask.queries[one], ask.sealed[one], ask.tail_mass[one], ask.scale)
        proposed = np.flatnonzero(alone.proposed[0])
        np.testing.assert_array_equal(proposed, blocks)
        assert len(proposed) == 1 + np.ceil((ask.sealed[stream] - 1) / 4)
        read += alone.summary_bytes
    assert read == whole.summary_bytes


@pytest.mark.parametrize("name", sorted(SUMMARIES))
def test_audits_steer_the_share_by_the_loss_that_is_allowed(name):
    kept, share = {}, {}
    for loss in (0.01, 0.5):
        stats, geometry = FirstStageStats(), Geometry(1, 2, DIM, torch.float32, 4)
        first = FirstStage(SUMMARIES[name], geometry, stats, most_blocks=None, loss=loss, sink_blocks=1, layer=0)
        streams = Streams(21, [[60], [50, 10]], keepers=[first])
        scorer = LayerScorer(streams.device, streams.store, None, first)
        for _ in range(32 * 6):
            scorer.score(streams.question(most=12))
        assert stats.audits == 2 * (6 + 5)
        kept[loss], share[loss] = stats.kept_mass, first.share.fraction
    assert kept[0.01] >= kept[0.5]
    assert (share[0.01] >= share[0.5]).all()
    if kept[0.5] < 0.95:
        assert (share[0.01] > share[0.5]).all()
    else:  # far less is lost than is allowed, so the share shrinks from a quarter
        assert share[0.5].max() < 0.25


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=6), data=st.data(), size=st.sampled_from([576, 1088]))
def test_runs_hold_exactly_the_blocks_asked_for(counts, data, size):
    runs = [ScoreRun(1 << 20 | i << 14, count, data.draw(st.integers(0, 2))) for i, count in enumerate(counts)]
    places = [(run.offset + i * size, run.segment) for run in runs for i in range(run.blocks)]
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, len(places) - 1)))), np.int64)
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(places))] * 2)))
    for found, blocks in (
        (RunIndex(runs).scattered(chosen, size), chosen),
        (span_runs(runs, first, last, size), range(first, last)),
    ):
        segments = np.arange(9)[found.segments].tolist() if isinstance(found.segments, slice) else found.segments
        expanded = [
            (block + i, offset + i * size, segment)
            for (offset, count), segment, block in zip(found.places, segments, found.first, strict=True)
            for i in range(count)
        ]
        assert expanded == [(b, *places[b]) for b in blocks]
        assert found.counts.tolist() == [count for _, count in found.places]


class FailingDevice(MemoryDevice):
    def submit(self, requests):
        return Done(error=StorageError("memory: the kernel stopped"))


def test_a_drive_that_fails_in_mid_command_leaves_nothing_half_done():
    geometry = Geometry(1, 1, DIM, torch.float32, 4)
    copies = ScoreCopies(geometry, None)
    first = FirstStage(
        SUMMARIES["mean_key"], geometry, FirstStageStats(), most_blocks=None, loss=0.01, sink_blocks=1, layer=0
    )
    streams = Streams(5, [[9, 8]], keepers=[copies, first])
    shared = balance("adaptive")
    good = LayerScorer(streams.device, streams.store, Beside(copies, shared), first)
    failing = FailingDevice()
    bad = LayerScorer(failing, streams.store, Beside(copies, shared), first)
    ask = streams.question()
    good.score(ask)  # the first step is cold, the second is learned from when the third begins
    good.score(ask)
    before = dataclasses.asdict(first._stats), first.share.fraction.copy()
    with pytest.raises(StorageError, match="the kernel stopped"):
        bad.score(ask)
    assert dataclasses.asdict(first._stats) == before[0]
    assert (first.share.fraction == before[1]).all()
    assert shared._controller is not None  # the good step was learned from, the failed one not
    assert shared._step.host_bytes == 0
    good.score(ask)
    assert shared._step.host_bytes > 0


def test_a_cache_whose_drive_fails_to_score_stays_as_it_was(model, ids, monkeypatch):
    drive = MemoryDevice()
    cache = nearkv.TieredCache(model, drive, budget=160, beta="adaptive", first_stage="quest_int8", policy="lookahead")
    with torch.inference_mode():
        model(ids, cache=cache, use_cache=True)
        model(ids[:, :1], cache=cache, use_cache=True)
        layer = cache.tiered_layers[1]
        before = layer.pool.resident.copy(), cache.scoring_report(), cache.stats.hits, cache.stats.promotions
        monkeypatch.setattr(drive, "submit", FailingDevice().submit)
        with pytest.raises(StorageError, match="the kernel stopped"):
            model(ids[:, :1], cache=cache, use_cache=True)
    assert (layer.pool.resident == before[0]).all()
    after = cache.scoring_report()
    assert after["first_stage"] == before[1]["first_stage"]
    assert (cache.stats.hits, cache.stats.promotions) == before[2:]
    cache.close()


@pytest.fixture(scope="module")
def reference(model, ids, tmp_path_factory):
    out, cache = answer(model, ids, f"emulated:{tmp_path_factory.mktemp('drive')}/kv?ddr=64MiB", budget=160)
    cache.close()
    return out


@pytest.mark.parametrize("beta", [0.2, 3.0, "adaptive"])
def test_tokens_do_not_depend_on_beta(model, ids, tmp_path, reference, beta):
    smallest = smallest_limit(model, ids, budget=160)
    url = f"emulated:{tmp_path}/kv?ddr=64MiB&score=200MB/s"
    for limit in (None, smallest, 2 * smallest):
        out, cache = answer(model, ids, url, budget=160, dram_limit=limit, beta=beta, beta_skew=beta == "adaptive")
        assert torch.equal(out, reference)
        assert limit is None or sum(cache.dram_bytes().values()) <= limit
        report = cache.scoring_report()["beta"]
        assert report["adaptive"] == (beta == "adaptive")
        if limit == smallest:
            assert cache.dram_bytes()["score_copies"] == 0
            assert report["limit"].startswith("DRAM budget")
        else:
            assert cache.dram_bytes()["score_copies"] > 0
            assert report["host_bytes"] > 0
        assert report["drive_bytes"] > 0
        cache.close()


@pytest.mark.parametrize("name", sorted(SUMMARIES))
def test_a_first_stage_grows_with_a_padded_batch_and_blocks_without_a_summary_are_candidates(model, ids, name):
    """Of 11 sealed blocks 10 were expected; the second sequence has 100 tokens less."""
    cache = nearkv.TieredCache(
        model, MemoryDevice(), budget=160, expected_tokens=320, first_stage=name, dram_limit=1 << 20
    )
    mask = torch.ones_like(ids)
    mask[1, :100] = 0
    model.generate(ids, attention_mask=mask, cache=cache, max_new_tokens=70, do_sample=False, min_new_tokens=70)
    stage, geometry = cache.scoring_report()["first_stage"], cache.tiered_layers[0].geometry
    assert 0 < stage["proposed_blocks"] < stage["all_blocks"]
    assert 0.9 < stage["kept_mass"] <= 1
    for layer in cache.tiered_layers:
        first = layer.scorer.first_stage
        assert layer.store.sealed.tolist() == [11, 11, 8, 8]
        assert first._table.count.tolist() == [10, 10, 8, 8]
        assert first.nbytes == 4 * SUMMARIES[name].stream_bytes(geometry.head_dim, 10)
    assert cache.dram_bytes()["summaries"] == len(cache.tiered_layers) * first.nbytes
    queries = np.ones((4, 2, geometry.head_dim), np.float32)
    first.share.fraction[:] = 0.01
    proposal = first.propose(np.arange(4), queries, layer.store.sealed, np.zeros((4, 2), np.int32), 1.0)
    assert {tuple(np.flatnonzero(row)[[0, -1]]) for row in proposal.proposed[:2]} == {(0, 10)}
    cache.close()


@pytest.mark.parametrize("name", sorted(SUMMARIES))
def test_a_first_stage_within_a_limit_is_counted_and_stays_in_it(model, ids, tmp_path, name):
    settings = {"budget": 160, "expected_tokens": 360, "first_stage": name}
    limit = smallest_limit(model, ids, **settings)
    for factor in (1, 3):
        url = f"emulated:{tmp_path}/kv?ddr=64MiB"
        out, cache = answer(model, ids, url, dram_limit=factor * limit, beta=1.0, **settings)
        dram = cache.dram_bytes()
        assert sum(dram.values()) <= factor * limit
        assert dram["summaries"] > 0
        stage = cache.scoring_report()["first_stage"]
        assert 0 < stage["proposed_blocks"] < stage["all_blocks"]
        assert stage["audits"] > 0
        assert 0.9 < stage["kept_mass"] <= 1
        assert out.shape == (2, 370)
        cache.close()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"beta": 0}, "beta is a positive number"),
        ({"beta": "fast"}, "beta is a positive number of host bytes per drive byte, or 'adaptive', not 'fast'"),
        ({"first_stage": "oracle"}, "no first stage is called 'oracle'; there are: hierarchical, infllm, mean_key, "),
        ({"first_stage": "int4"}, "no first stage is called 'int4'; there are: .*quest_int8, shadowkv"),
        ({"first_stage": "quest", "first_stage_loss": 1.0}, "first_stage_loss is a share"),
        ({"first_stage": "quest", "dram_limit": 1 << 30}, "needs expected_tokens"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        nearkv.TierConfig(**settings)
