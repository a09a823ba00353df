"""The hot pool in native code, against its definitions; checksums by address."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv_drivers import native, pool
from nearkv_drivers.memory import address_of
from nearkv_drivers.wire import ContractError

BLOCKS, BYTES = 24, 8


def admitted(resident, selected, slot, values, pinned, quota):
    """Slots of one stream after the step, by the words of ``pool.admit``."""
    share = len(resident)
    candidates = [(int(block), at) for at, block in enumerate(resident) if block >= 0]
    missed = [(int(block), share + at) for at, block in enumerate(selected) if block >= 0 and slot[at] < 0]
    pins = sorted((block, at) for block, at in candidates + missed if block < pinned)
    free_to_go = sorted((-values[at], block, at) for block, at in candidates + missed if block >= pinned)
    kept = (pins + [(block, at) for _, block, at in free_to_go])[:quota]
    after = [int(block) if (block, at) in kept and at < quota else -1 for at, block in enumerate(resident)]
    moving = sorted((at, block) for block, at in kept if at >= quota)
    for _, block in moving:
        after[after.index(-1)] = block
    return after


@given(seed=st.integers(0, 2**31), count=st.integers(0, 10), pinned=st.integers(0, 3))
def test_every_selected_block_is_found_in_its_slot_or_where_it_lands(seed, count, pinned):
    rng = np.random.default_rng(seed)
    streams, slots = 3, 6
    where = np.full((streams, BLOCKS), -1, np.int64)
    for row in where:
        row[rng.permutation(BLOCKS)[:slots]] = np.arange(slots)
    selected = np.stack([rng.permutation(BLOCKS)[:count] for _ in range(streams)]).astype(np.int32)
    selected[rng.random(selected.shape) < 0.2] = -1
    addresses = rng.integers(1, 2**40, (streams, slots)).astype(np.uint64)
    landing = rng.integers(1, 2**40, (streams, count + 2)).astype(np.uint64)
    slot, missed, positions, hits = pool.look_up(where, selected, pinned)
    found = pool.locate(selected, slot, addresses, landing)
    misses, expected_hits = [], 0
    for stream, position in np.ndindex(selected.shape):
        block = int(selected[stream, position])
        held = -1 if block < 0 else int(where[stream, block])
        assert slot[stream, position] == held
        expected_hits += held >= 0 and block >= pinned
        if block >= 0 and held < 0:
            misses.append((stream, position))
        expected = 0 if block < 0 else addresses[stream, held] if held >= 0 else landing[stream, position]
        assert found[stream, position] == expected
    assert list(zip(missed.tolist(), positions.tolist(), strict=True)) == misses
    assert hits == expected_hits


def test_blocks_and_slots_beyond_the_pool_are_refused():
    where, one = np.full((1, 4), -1, np.int64), np.full((1, 1), 4, np.int32)
    with pytest.raises(ContractError, match="block 4 is beyond"):
        pool.look_up(where, one, 0)
    addresses = np.ones((1, 2), np.uint64)
    with pytest.raises(ContractError, match="slot 2 is beyond"):
        pool.locate(one, np.full((1, 1), 2), addresses, addresses)
    with pytest.raises(ContractError, match="landing"):
        pool.locate(one, np.full((1, 1), -1), addresses, addresses[:, :0])


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**31), share=st.integers(1, 8), count=st.integers(0, 10), pinned=st.integers(0, 3),
    levels=st.integers(1, 6),
)  # fmt: skip
def test_the_pool_keeps_the_candidates_of_highest_value(seed, share, count, pinned, levels):
    rng = np.random.default_rng(seed)
    streams = 2
    quota = rng.integers(0, share + 1, streams)
    resident = np.stack([rng.permutation(BLOCKS)[:share] for _ in range(streams)]).astype(np.int32)
    resident[rng.random(resident.shape) < 0.2] = -1
    selected = np.stack([rng.permutation(BLOCKS)[:count] for _ in range(streams)]).astype(np.int32)
    selected[rng.random(selected.shape) < 0.1] = -1
    where = np.full((streams, BLOCKS + 1), -1, np.int64)
    for stream, at in np.argwhere(resident >= 0):
        where[stream, resident[stream, at]] = at
    slot = np.take_along_axis(where, selected.astype(np.int64), axis=1)
    values = rng.integers(0, levels, (streams, share + count))
    memory = np.repeat(resident.astype(np.uint8)[..., None], BYTES, axis=2)
    addresses = (address_of(memory) + np.arange(streams * share) * BYTES).astype(np.uint64).reshape(streams, share)
    fetched = np.repeat(selected.astype(np.uint8)[..., None], BYTES, axis=2)
    expected = [admitted(resident[s], selected[s], slot[s], values[s], pinned, int(quota[s])) for s in range(streams)]
    before = resident.copy()
    moved = pool.admit(resident, where, addresses, quota, selected, slot, values, pinned, fetched)
    assert resident.tolist() == expected
    changes = [(set(now) - {-1}, set(then) - {-1}) for now, then in zip(expected, before.tolist(), strict=True)]
    assert moved == (sum(len(now - then) for now, then in changes), sum(len(then - now) for now, then in changes))
    for stream in range(streams):
        for at, block in enumerate(expected[stream]):
            if block >= 0:
                assert (memory[stream, at] == block).all()
        held = {block: at for at, block in enumerate(expected[stream]) if block >= 0}
        assert where[stream].tolist() == [held.get(block, -1) for block in range(BLOCKS + 1)]


def test_what_does_not_fit_the_pool_is_refused():
    good = {
        "resident": np.full((2, 3), -1, np.int32), "where": np.full((2, 8), -1, np.int64),
        "addresses": np.zeros((2, 3), np.uint64), "quota": np.array([3, 2]),
        "selected": np.tile(np.arange(4, dtype=np.int32), (2, 1)), "slot": np.full((2, 4), -1, np.int64),
        "values": np.zeros((2, 7), np.int64), "pinned": 0, "fetched": np.zeros((2, 4, 16), np.uint8),
    }  # fmt: skip
    memory = np.zeros((2, 3, 16), np.uint8)
    good["addresses"][:] = address_of(memory) + 16 * np.arange(6).reshape(2, 3)
    for name, wrong, message in (
        ("where", np.full((1, 8), -1, np.int64), "where does not have the pool's shape"),
        ("slot", np.full((2, 3), -1, np.int64), "slot does not have"),
        ("values", np.zeros((2, 4), np.int64), "values does not have"),
        ("fetched", np.zeros((2, 3, 16), np.uint8), "fetched does not have"),
        ("addresses", np.zeros((2, 2), np.uint64), "addresses does not have"),
        ("addresses", np.zeros((2, 3), np.uint64), "slot 0 of stream 0 has no address"),
        ("quota", np.array([3]), "quota does not have"),
        ("quota", np.array([3, 4]), "a stream of 3 slots cannot use 4"),
        ("selected", np.full((2, 4), 8, np.int32), "block 8 is beyond the pool's 8"),
    ):
        with pytest.raises(ContractError, match=message):
            pool.admit(**(good | {name: wrong}))
    assert pool.admit(**good) == (5, 0)


def test_checksums_by_address_are_those_of_the_rows():
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 256, (300, 4096), np.uint8)
    addresses = (address_of(rows) + np.arange(300)[::-1] * 4096).astype(np.uint64)
    np.testing.assert_array_equal(native.crc32c_at(addresses, 4096), native.crc32c_rows(rows[::-1]))
    assert native.crc32c_at(addresses[:0], 4096).shape == (0,)
    with pytest.raises(ContractError, match="piece 1 has no address"):
        native.crc32c_at(np.array([addresses[0], 0], np.uint64), 16)
