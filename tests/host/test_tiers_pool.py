"""The hot pool under any policy and any sequence of steps: nothing lost, nothing twice, nothing over its share."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv import policy
from nearkv.cache.pool import LayerPool

BLOCK_BYTES, BLOCKS = 16, 40


def content(stream, block):
    """What the drive holds at a block: every byte tells its stream and index."""
    return np.full(BLOCK_BYTES, (stream * 53 + block * 7 + 1) % 251, np.uint8)


def check(pool, streams):
    for stream in range(streams):
        held = pool.resident[stream]
        found = held[held >= 0].tolist()
        assert len(set(found)) == len(found) <= pool.share
        for slot, block in enumerate(held.tolist()):
            if block >= 0:
                np.testing.assert_array_equal(pool.memory[stream, slot], content(stream, block))
        plan = pool.plan(np.tile(np.arange(BLOCKS, dtype=np.int32), (streams, 1)))
        assert sorted(np.flatnonzero(plan.slot[stream] >= 0).tolist()) == sorted(found)


STEP = st.tuples(st.integers(0, 2**31), st.integers(1, 12), st.booleans())


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(policy.names()),
    share=st.integers(0, 10),
    pinned=st.integers(0, 2),
    steps=st.lists(STEP, max_size=25),
)
def test_every_block_is_readable_at_every_moment(name, share, pinned, steps):
    streams = 2
    memory = np.zeros((streams, share, BLOCK_BYTES), np.uint8)
    pool = LayerPool(0, SimpleNamespace(streams=streams), memory, policy.create(name), pinned)
    for stream in range(streams):
        newest = np.stack([content(stream, block) for block in range(BLOCKS - share, BLOCKS)] or [np.zeros(0)])
        pool.warm(stream, np.arange(BLOCKS - share, BLOCKS, dtype=np.int32), newest[:share])
    for seed, count, read_fails in steps:
        rng = np.random.default_rng(seed)
        selected = np.stack([rng.permutation(BLOCKS)[:count] for _ in range(streams)]).astype(np.int32)
        selected[rng.random(selected.shape) < 0.1] = -1
        plan = pool.plan(selected)
        gathered = np.zeros((streams, count, BLOCK_BYTES), np.uint8)
        for stream, position in zip(*plan.hits, strict=True):
            gathered[stream, position] = pool.memory[stream, plan.slot[stream, position]]
        for stream, position in zip(*plan.misses, strict=True):
            gathered[stream, position] = content(stream, selected[stream, position])
        for stream, position in np.argwhere(selected >= 0):
            expected = content(stream, selected[stream, position])
            np.testing.assert_array_equal(gathered[stream, position], expected)
        if not read_fails:  # a step whose read failed ends before it reaches the pool
            pool.admit(plan, rng.integers(1, 2**24, selected.shape).astype(np.uint32), gathered)
        check(pool, streams)
