"""Hot pools for tests: a quota for every stream, filled and read byte by byte."""

import ctypes

import numpy as np

from nearkv.cache.pool import LayerPool, Plan


def slot_bytes(pool, stream, slot):
    """The bytes of a slot: uint8 [block bytes], a view."""
    shape, none = (len(pool.resident), 1), np.empty(0, np.int64)
    plan = Plan(np.zeros(shape, np.int32), np.full(shape, slot), (none, none), 0)
    address = int(pool.locate(plan, np.zeros(shape, np.uint64))[stream, 0])
    return np.frombuffer((ctypes.c_uint8 * pool.block_bytes).from_address(address), np.uint8)


def reader(content):
    """Reads the blocks that ``content`` (stream, block) gives."""

    def read(streams, blocks, addresses):
        for stream, block, address in zip(streams.tolist(), blocks.tolist(), addresses.tolist(), strict=True):
            data = np.ascontiguousarray(content(stream, block))
            ctypes.memmove(address, data.ctypes.data, data.nbytes)

    return read


def make_pool(geometry, policy, share, pinned=1):
    return LayerPool(0, geometry, policy, pinned, np.full(geometry.streams, share, np.int64))


def check(pool, content):
    """Nothing twice, nothing over the quota, every byte as ``content`` says, and the books agree with the slots."""
    for stream, held in enumerate(pool.resident):
        found = held[held >= 0].tolist()
        assert len(set(found)) == len(found)
        assert (np.flatnonzero(held >= 0) < pool.quota[stream]).all()
        for slot in np.flatnonzero(held >= 0).tolist():
            np.testing.assert_array_equal(slot_bytes(pool, stream, slot), content(stream, int(held[slot])))
        known = np.arange(max(found, default=0) + 5, dtype=np.int32)
        plan = pool.plan(np.tile(known, (len(pool.resident), 1)))
        assert sorted(np.flatnonzero(plan.slot[stream] >= 0).tolist()) == sorted(found)
    assert pool.nbytes == pool.quota.sum() * pool.block_bytes
