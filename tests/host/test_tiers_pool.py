"""The hot pool under any policy and any sequence of steps: nothing lost, nothing twice, nothing over its quota."""

import ctypes
import mmap
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv import policy
from nearkv.cache.pool import LayerPool
from nearkv.cache.slots import SlotMemory

from tests.host.pools import check, make_pool, reader, slot_bytes

BLOCK_BYTES, BLOCKS, STREAMS = 16, 40, 2


def content(stream, block):
    """What the drive holds at a block: every byte tells its stream and index."""
    return np.full(BLOCK_BYTES, (stream * 53 + block * 7 + 1) % 251, np.uint8)


STEP = st.tuples(st.integers(0, 2**31), st.integers(1, 12), st.sampled_from(["step", "failed read", "offer", "resize"]))


def one_step(pool, subject, rng, count, kind):
    selected = np.stack([rng.permutation(BLOCKS)[:count] for _ in range(STREAMS)]).astype(np.int32)
    selected[rng.random(selected.shape) < 0.1] = -1
    if kind == "resize":
        pool.resize(rng.integers(0, 12, STREAMS))
        return
    if kind == "offer":
        data = np.stack([content(stream, block)[None] for stream, block in enumerate(selected[:, 0])])
        pool.offer(selected[:, 0].copy(), data)
        return
    plan = pool.plan(selected)
    gathered = np.zeros((STREAMS, count, BLOCK_BYTES), np.uint8)
    for stream, position in np.argwhere(plan.slot >= 0):
        gathered[stream, position] = slot_bytes(pool, stream, plan.slot[stream, position])
    for stream, position in zip(*plan.misses, strict=True):
        gathered[stream, position] = content(stream, selected[stream, position])
    for stream, position in np.argwhere(selected >= 0):
        np.testing.assert_array_equal(gathered[stream, position], content(stream, selected[stream, position]))
    if kind == "step":  # a step whose read failed ends before it reaches the pool
        subject.observe(0, selected, rng.integers(1, 2**24, selected.shape).astype(np.uint32))
        before = pool.resident.copy()
        promoted, demoted = pool.admit(plan, gathered)
        held = [
            (set(now.tolist()) - {-1}, set(then.tolist()) - {-1})
            for now, then in zip(pool.resident, before, strict=True)
        ]
        assert promoted == sum(len(now - then) for now, then in held)
        assert demoted == sum(len(then - now) for now, then in held)


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(policy.names()),
    share=st.integers(0, 10),
    pinned=st.integers(0, 2),
    steps=st.lists(STEP, max_size=25),
)
def test_every_block_is_readable_at_every_moment(name, share, pinned, steps):
    subject = policy.create(name)
    pool = make_pool(SimpleNamespace(streams=STREAMS, kv_block_bytes=BLOCK_BYTES), subject, share, pinned)
    newest = np.tile(np.arange(BLOCKS - share, BLOCKS, dtype=np.int32), (STREAMS, 1))
    assert pool.fill(newest, reader(content)) == STREAMS * share
    for seed, count, kind in steps:
        sinks = [set(range(pinned)) & set(row.tolist()) for row in pool.resident]
        one_step(pool, subject, np.random.default_rng(seed), count, kind)
        check(pool, content)
        for stream, had in enumerate(sinks):
            assert kind == "resize" or had <= set(pool.resident[stream].tolist())


@settings(max_examples=40, deadline=None)
@given(
    share=st.integers(1, 8),
    placements=st.lists(st.lists(st.integers(0, BLOCKS - 1), max_size=8, unique=True), max_size=6),
    failing=st.integers(0, 6),
)
def test_a_fill_leaves_exactly_what_was_asked_and_a_failed_one_what_was_there(share, placements, failing):
    pool = make_pool(SimpleNamespace(streams=1, kv_block_bytes=BLOCK_BYTES), policy.create("lru"), share)

    def fail(*_):
        raise OSError("a read failed")

    for number, blocks in enumerate(placements):
        wanted, before = blocks[:share], set(pool.resident[0].tolist()) - {-1}
        missing = set(wanted) - before
        if number == failing and missing:
            with pytest.raises(OSError, match="read failed"):
                pool.fill(np.array([wanted], np.int32), fail)
            wanted = [block for block in wanted if block in before]
        else:
            assert pool.fill(np.array([wanted], np.int32).reshape(1, -1), reader(content)) == len(missing)
        assert set(pool.resident[0].tolist()) - {-1} == set(wanted)
        check(pool, content)


def resident_bytes(memory):
    """Bytes of ``memory``'s address space that are backed by memory now, page by page."""
    libc, total = ctypes.CDLL(None, use_errno=True), 0
    for base, pages in memory._maps:
        seen = (ctypes.c_ubyte * (len(pages) // mmap.PAGESIZE))()
        assert libc.mincore(ctypes.c_void_p(base), ctypes.c_size_t(len(pages)), seen) == 0
        total += sum(each & 1 for each in seen) * mmap.PAGESIZE
    return total


def test_slots_that_may_not_be_used_take_no_memory():
    size = 64 << 10
    geometry = SimpleNamespace(streams=2, kv_block_bytes=size)
    pool = LayerPool(0, geometry, policy.create("lru"), 0, np.zeros(2, np.int64))
    for quota in ([40, 10], [3, 30], [60, 0], [0, 0]):
        pool.resize(np.array(quota))
        blocks = np.full((2, 60), -1, np.int32)
        for stream, count in enumerate(quota):
            blocks[stream, :count] = np.arange(count)
        pool.fill(blocks, reader(lambda stream, block: np.full(size, block + 1, np.uint8)))
        assert pool.nbytes == sum(quota) * size
        assert resident_bytes(pool._slots) <= pool.nbytes


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=8))
def test_slots_never_overlap_and_stay_where_they_are(quotas):
    memory, known = SlotMemory(2, 4096), {}
    for quota in quotas:
        memory.resize(np.array(quota))
        for stream in range(2):
            for slot in range(quota[stream]):
                address = int(memory.addresses[stream, slot])
                assert address % 4096 == 0
                assert known.setdefault((stream, slot), address) == address
    assert len(set(known.values())) == len(known)
