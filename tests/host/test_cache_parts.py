"""The parts of the cache on their own: buffers, tail, window, extents, pool."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.cache_utils import DynamicSlidingWindowLayer

import nearkv
from nearkv.cache.buffers import BlockBuffer, aligned_blocks
from nearkv.cache.extents import ExtentAllocator, ScoreExtent
from nearkv.cache.geometry import Geometry
from nearkv.cache.placement import PromptQueries, newest_placement, prompt_block_shares, prompt_placement
from nearkv.cache.scoring import LayerScorer
from nearkv.cache.selection import select
from nearkv.cache.store import LayerStore
from nearkv.cache.tail import StreamWindows, Tail
from nearkv.cache.window import WindowLayer
from nearkv.policy import create, names
from nearkv_drivers.device import ScoreResult

from tests.host.conftest import make_model
from tests.host.memory_device import MemoryDevice
from tests.host.pools import check, make_pool, slot_bytes

GEOMETRIES = [
    Geometry(2, 2, 32, torch.float32, 4),
    Geometry(1, 3, 80, torch.float16, 4),  # blocks of 10,240 bytes, padded to 12,288
    Geometry(2, 1, 48, torch.bfloat16, 8),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_tokens_come_back_from_a_block_buffer(geometry, data):
    g = geometry
    count = data.draw(st.integers(1, 150))
    edges = sorted({0, count, *data.draw(st.lists(st.integers(0, count), max_size=4))})
    pairs = torch.randn(g.batch, g.kv_heads, count, 2, g.head_dim).to(g.dtype)
    buffer = BlockBuffer(g)
    buffer.reserve(-(-count // 32))
    for sequence in range(g.batch):
        for a, b in pairwise(edges):
            buffer.put(sequence, a, pairs[sequence, :, a:b])
    keys, values = buffer.keys_values(count)
    assert torch.equal(keys, pairs[..., 0, :])
    assert torch.equal(values, pairs[..., 1, :])
    assert buffer.bytes.ctypes.data % 4096 == 0


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_k_and_v_are_interleaved_per_token(geometry):
    g = geometry
    pairs = torch.randn(g.kv_heads, 32, 2, g.head_dim).to(g.dtype)
    blocks = aligned_blocks(pairs, g)
    row = torch.from_numpy(blocks[0])[: g.payload_bytes].view(g.dtype)
    assert torch.equal(row[: g.head_dim], pairs[0, 0, 0])
    assert torch.equal(row[g.head_dim : 2 * g.head_dim], pairs[0, 0, 1])
    assert torch.equal(row[2 * g.head_dim : 3 * g.head_dim], pairs[0, 1, 0])


@given(prompt=st.integers(1, 200), steps=st.integers(1, 150), recent=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_the_tail_holds_the_newest_tokens(prompt, steps, recent):
    g = Geometry(1, 1, 32, torch.float32, 4)
    total = prompt + steps
    tokens = torch.arange(total, dtype=torch.float32)[None, :, None, None].expand(1, total, 2, 32)
    tail, buffer = Tail(g, recent, torch.device("cpu")), BlockBuffer(g)
    buffer.reserve(-(-prompt // 32))
    buffer.put(0, 0, tokens[:, :prompt])
    tail.load(0, prompt, buffer.tokens()[0])
    for at in range(prompt, total):
        before = tail.start[0]
        complete = tail.append(tokens[None, :, at : at + 1, 0], tokens[None, :, at : at + 1, 1])
        assert complete == ([0] if (at + 1) % 32 == 0 else [])
        if complete:
            assert tail.newest_block(0)[0, :, 0, 0].tolist() == list(range(at - 31, at + 1))
        assert tail.start[0] in (before, before + 32)
        assert tail.window(0)[0, :, 1, 0].tolist() == list(range(tail.start[0], at + 1))
        # What left the window was sealed at least `recent` blocks ago.
        assert tail.start[0] <= max(0, (at + 1) // 32 - recent) * 32
        assert tail.count(0) >= min(at + 1, recent * 32)


@given(
    window=st.integers(2, 40), chunks=st.lists(st.integers(1, 30), min_size=1, max_size=6), steps=st.integers(1, 120)
)
@settings(max_examples=40, deadline=None)
def test_the_window_layer_equals_transformers(window, chunks, steps):
    ours, theirs = WindowLayer(window), DynamicSlidingWindowLayer(window)
    for count in [*chunks, *[1] * steps]:
        k, v = torch.randn(1, 2, count, 8), torch.randn(1, 2, count, 8)
        assert ours.get_mask_sizes(count) == theirs.get_mask_sizes(count)
        for a, b in zip(ours.update(k, v), theirs.update(k, v), strict=True):
            assert torch.equal(a, b)
        assert ours.get_seq_length() == theirs.get_seq_length()


@given(asked=st.lists(st.tuples(st.integers(1, 50 << 20), st.sampled_from(["scores", "kv"])), max_size=30))
@settings(max_examples=60, deadline=None)
def test_extents_are_aligned_and_never_overlap(asked):
    allocator = ExtentAllocator()
    extents = sorted((allocator.allocate(size, kind), size) for size, kind in asked)
    assert all(offset % 4096 == 0 for offset, _ in extents)
    assert all(a + size <= b for (a, size), (b, _) in pairwise(extents))


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12), block=st.sampled_from([576, 1088, 2112, 4160]))
@settings(max_examples=40, deadline=None)
def test_a_score_extent_grows_by_whole_pages(sizes, block):
    drive, rng = MemoryDevice(), np.random.default_rng(0)
    blocks = rng.integers(0, 256, (sum(sizes), block), np.uint8)
    allocator = ExtentAllocator()
    allocator.allocate(100, "kv")
    extent = ScoreExtent(allocator.allocate(blocks.size, "scores"), blocks.size)
    done = 0
    for size in sizes:
        assert extent.room(block) >= size
        handle, _ = extent.append(blocks[done : done + size], drive)
        handle.wait()
        done += size
    stored = drive.data[extent.offset : extent.offset + blocks.size].reshape(blocks.shape)
    assert (stored == blocks).all()


@pytest.mark.parametrize("policy", names())
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_the_pool_neither_loses_nor_duplicates(policy, data):
    g = Geometry(1, 2, 32, torch.float32, 4)
    share, total, width = data.draw(st.integers(1, 6)), data.draw(st.integers(8, 90)), data.draw(st.integers(1, 8))
    drive = np.random.default_rng(1).integers(0, 256, (2, total, g.kv_block_bytes), np.uint8)
    subject = create(policy)
    pool = make_pool(g, subject, share)
    for _ in range(data.draw(st.integers(1, 12))):
        picks = [data.draw(st.lists(st.integers(0, total - 1), max_size=width, unique=True)) for _ in range(2)]
        selected = np.full((2, width), -1, np.int32)
        for stream, pick in enumerate(picks):
            selected[stream, : len(pick)] = pick
        plan = pool.plan(selected)
        buffer = np.zeros((2, width, g.kv_block_bytes), np.uint8)
        for stream, position in np.argwhere(plan.slot >= 0):
            assert pool.resident[stream, plan.slot[stream, position]] == selected[stream, position]
            buffer[stream, position] = slot_bytes(pool, stream, plan.slot[stream, position])
        for stream, position in zip(*plan.misses, strict=True):
            buffer[stream, position] = drive[stream, selected[stream, position]]
        for stream in range(2):
            for position, block in enumerate(selected[stream]):
                assert block < 0 or (buffer[stream, position] == drive[stream, block]).all()
        had_sink = [0 in pool.resident[stream] for stream in range(2)]
        subject.observe(0, selected, np.ones((2, width), np.uint32))
        moved, _ = pool.admit(plan, buffer)
        assert moved <= len(plan.misses[0])
        for stream in range(2):
            held = pool.resident[stream][pool.resident[stream] >= 0]
            assert len(set(held.tolist())) == len(held)
            assert not had_sink[stream] or 0 in held
        check(pool, lambda stream, block: drive[stream, block])


BLOCKS, WINDOW = 40, StreamWindows(np.full(2, 39), np.full(2, 32), np.full((2, 1), 39, np.int32))


def sealed_prompt(bits, direction, important):
    """A store with 40 blocks per stream, of which the ``important`` ones point in ``direction``."""
    g = Geometry(1, 2, 32, torch.float32, bits)
    staged, drive = BlockBuffer(g), MemoryDevice()
    staged.reserve(BLOCKS)
    pairs = torch.randn(2, BLOCKS * 32, 2, 32, generator=torch.Generator().manual_seed(0))
    for head, blocks in important.items():
        for block in blocks:
            pairs[head, block * 32 : block * 32 + 32, 0] += 3 * direction
    staged.put(0, 0, pairs)
    store = LayerStore(0, g, drive, ExtentAllocator(), BLOCKS)
    store.seal(range(2), staged.bytes, adopt=False)
    store.settle()
    return drive, store, pairs


@pytest.mark.parametrize("bits", [4, 8])
def test_warm_up_places_what_the_last_queries_attend_to(bits):
    direction = torch.randn(32, generator=torch.Generator().manual_seed(1))
    drive, store, pairs = sealed_prompt(bits, direction, {0: [7, 21], 1: [3, 30]})
    noise = torch.randn(1, 4, 20, 32, generator=torch.Generator().manual_seed(2))
    prompt = PromptQueries()
    prompt.keep(direction + 0.1 * noise[:, :, :5], 1.0)  # chunks of any length add up
    prompt.keep(direction + 0.1 * noise[:, :, 5:], 0.2)
    queries = prompt.take(2, BLOCKS * 32)
    assert queries.shape == (1, 2, 2, 20, 32)
    keys = pairs[:, :, 0].unflatten(1, (BLOCKS, 32))
    scores = torch.einsum("hgpd,hbtd->hgpbt", queries[0], keys) * 0.2
    exact = torch.softmax(scores.flatten(3), -1).unflatten(3, (BLOCKS, 32)).sum(-1).mean(1)[..., : BLOCKS - 1]

    def tail_mass(part, scale):
        mass = torch.einsum("bhgd,htd->bhgt", part.grouped, keys[:, -1]).mul(scale).logsumexp(-1) * np.log2(np.e) * 256
        return mass.round().int().flatten(0, 1).numpy()

    shares = prompt_block_shares(LayerScorer(drive, store), queries, WINDOW, prompt.scale, tail_mass)
    assert shares.shape == exact.shape
    assert np.abs(shares - exact.numpy()).max() < {4: 0.15, 8: 0.08}[bits]  # keys and 2^x are the contract's
    placed = prompt_placement(shares, WINDOW, np.array([3, 4]), 1)
    assert placed[0].tolist()[:3] == [0, 7, 21] or placed[0].tolist()[:3] == [0, 21, 7]
    assert placed[0, 3] == -1
    assert {3, 30} < set(placed[1].tolist()) - {-1, 0}


def test_a_prompt_too_short_to_judge_by_gets_its_newest_blocks():
    prompt = PromptQueries()
    prompt.keep(torch.zeros(1, 4, 40, 32), 1.0)
    assert prompt.take(2, tokens=15) is None
    assert prompt.take(2, tokens=400) is None  # they are used once
    assert newest_placement(WINDOW, np.array([4, 2]), 1).tolist() == [[0, 38, 37, 36], [0, 38, -1, -1]]
    short = StreamWindows(np.array([0, 2]), np.array([20, 33]), np.array([[0, -1], [2, 3]], np.int32))
    assert newest_placement(short, np.array([4, 4]), 1).tolist() == [[-1] * 4, [0, 1, -1, -1]]


def test_kv_of_a_dense_cache_can_be_taken_over():
    model = nearkv.attach(make_model("llama"))
    ids = torch.randint(3, 101, (1, 150), generator=torch.Generator().manual_seed(5))
    with torch.inference_mode():
        dense = model(ids, use_cache=True)
        cache = nearkv.TieredCache(model, MemoryDevice(), budget=1024)
        for number, layer in enumerate(dense.cache.layers):
            cache.load(number, layer.keys, layer.values)
        step = model(ids[:, :1], cache=cache, use_cache=True).logits
        reference = model(ids[:, :1], cache=dense.cache, use_cache=True).logits
    assert (step - reference).abs().max() < 1e-5


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_heads_of_a_layer_share_its_budget(data):
    heads, sinks = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 2))
    candidates = np.full(heads, data.draw(st.integers(20, 60)))
    wanted = np.full(heads, data.draw(st.integers(sinks + 1, 12)))
    results = []
    for _ in range(heads):
        order = np.array(data.draw(st.permutations(range(int(candidates[0])))), np.uint32)[: 2 * int(wanted[0])]
        shares = np.sort(np.array(data.draw(st.lists(st.integers(0, 99), min_size=len(order), max_size=len(order)))))
        results.append(
            ScoreResult(np.zeros(1, np.int32), np.zeros(0, np.uint32), order, shares[::-1].astype(np.uint32))
        )
    selected, priority = select(results, candidates, wanted, sinks, heads)
    chosen = [row[row >= 0].tolist() for row in selected]
    assert all(len(set(row)) == len(row) and row[:sinks] == list(range(sinks)) for row in chosen)
    offered = [[(p, b) for b, p in zip(r.positions, r.priorities, strict=True) if b >= sinks] for r in results]
    room = min(int((wanted - sinks).sum()), sum(map(len, offered)))
    assert sum(len(row) - sinks for row in chosen) == room
    best = sorted((p for each in offered for p, _ in each), reverse=True)[:room]
    taken = sorted(
        (
            int(p)
            for row, part in zip(selected, priority, strict=True)
            for b, p in zip(row, part, strict=True)
            if b >= sinks
        ),
        reverse=True,
    )
    assert taken == [int(p) for p in best]
