"""Cold K and V in few bits, in the live cache: what comes from the drive is decoded, what never left DRAM is exact."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nearkv
from nearkv.cache.cold import ColdBlocks
from nearkv.cache.geometry import Geometry
from nearkv.errors import ContractError, MemoryLimitError, StorageError, UnsupportedError
from nearkv.policy import names
from nearkv.tiers.layout import LAYOUTS
from nearkv_drivers import row_codec
from nearkv_drivers.memory import address_of, aligned_buffer

from tests.host.answers import answer, smallest_limit
from tests.host.conftest import make_model
from tests.host.memory_device import MemoryDevice
from tests.host.pools import slot_bytes
from tests.host.test_dense_equality import PADDING, PROMPT, STEPS, dense_and_near
from tests.host.test_live_invariants import (
    BATCH,
    BLOCK,
    BUDGET,
    HEAD_DIM,
    KV_HEADS,
    LAYERS,
    OPERATION,
    Run,
    emergency,
)

PAGE = 4096


# --- what it costs ---------------------------------------------------------------------------------------------------

BOUND = {8: 0.003, 4: 0.05}
"""Of logits that spread by 0.16: what 8 bits may move them by, and what 4 bits may."""


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("chunk", [PROMPT, 64], ids=["single-shot", "chunked"])
@pytest.mark.parametrize("family", ["llama", "llama-mqa", "gemma3"])
def test_logits_stay_near_dense_at_full_budget(family, chunk, bits):
    model = make_model(family)
    ids = torch.randint(3, 101, (2, PROMPT + STEPS), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, :PADDING] = 0
    reference, near, _ = dense_and_near(model, ids, mask, chunk, budget=1024, cold_bits=bits)
    moved = (near - reference)[mask.bool()].abs().max()
    assert 1e-5 < moved < BOUND[bits]  # not at all would mean that nothing was cold


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_near_dense(dtype):
    model = make_model("llama", head_dim=64).to(dtype)
    ids = torch.randint(3, 101, (1, PROMPT + STEPS), generator=torch.Generator().manual_seed(1))
    reference, near, _ = dense_and_near(model, ids, torch.ones_like(ids), 64, budget=1024, cold_bits=8)
    assert (near - reference).abs().max() < 0.02


# --- what it saves ---------------------------------------------------------------------------------------------------


def test_the_drive_sees_codes_only(model, ids):
    traffic = {}
    for bits in (None, 8):
        drive = MemoryDevice()
        _, cache = answer(model, ids, drive, budget=160, cold_bits=bits)
        fetched = cache.stats.misses + cache.stats.warm_blocks
        assert fetched > 0
        sealed = sum(int(layer.store.sealed.sum()) for layer in cache.tiered_layers)
        traffic[bits] = drive.counters.drive_to_host / fetched, drive.counters.host_to_drive, sealed
        assert cache.tiered_layers[0].geometry.kv_block_bytes == 2 * PAGE
    assert (traffic[None][0], traffic[8][0]) == (2 * PAGE, PAGE)
    assert traffic[None][2] == traffic[8][2]
    assert traffic[None][1] - traffic[8][1] == traffic[8][2] * PAGE  # the score blocks are the same


def test_the_links_cap_counts_codes(tmp_path):
    waited = []
    mode = emergency(None, sleep=waited.append)
    run = Run(tmp_path, 6, mode, dram_limit=1 << 20, expected_tokens=640, cold_bits=8)
    run.forward(600)
    run.forward(1)
    mode.update(50, 0.2)
    before = run.cache.stats.misses
    run.forward(1)
    # One byte passes at once and time stands still: each fetch waits for what the ones before it owe, at 700 bytes/s.
    assert 0 < waited[-1] * 700 <= (run.cache.stats.misses - before) * PAGE


# --- invariants ------------------------------------------------------------------------------------------------------


class ColdRun(Run):
    """A run whose blocks are codes on the drive: every copy is the block itself or what its codes decode to."""

    def decoded(self, number, stream, block):
        """What comes back of a block: uint8 [block bytes]."""
        pairs = self.block(number, stream, block).view(np.float32).reshape(1, -1)
        source, codes = aligned_buffer(BLOCK), aligned_buffer(PAGE).reshape(1, PAGE)
        source[:] = pairs.view(np.uint8).reshape(-1)
        form = HEAD_DIM, self.cache.config.cold_bits, "float32"
        at = np.array([address_of(source)], np.uint64)
        scales, _ = row_codec.encode(at, codes, *form)
        row_codec.decode(np.array([address_of(codes)], np.uint64), scales, at, *form)
        return source

    def check(self):
        """DRAM holds no byte too many, hot blocks are exact or decoded, and the drive has every block's codes."""
        self.check_dram()
        for number, layer in enumerate(self.cache.layers):
            assert layer.store.cold.nbytes >= layer.store.sealed.max() * BATCH * KV_HEADS * 128
            first = layer.tail.streams.first_block
            for stream in range(BATCH * KV_HEADS):
                for slot, block in enumerate(layer.pool.resident[stream].tolist()):
                    if block >= 0:
                        self.exact_or_decoded(number, stream, block, slot_bytes(layer.pool, stream, slot))
                self.check_stream(number, layer, stream, int(first[stream]))
        if self.cache.alpha is not None:
            self.check_alpha(self.cache.alpha)

    def exact_or_decoded(self, number, stream, block, found):
        """Whether ``found`` is what the block held; it is one of the two in any case."""
        exact = np.array_equal(found, self.block(number, stream, block))
        if not exact:
            np.testing.assert_array_equal(found, self.decoded(number, stream, block))
        return exact

    def check_stream(self, number, layer, stream, first):
        """One block before the window from the drive, the others from the tail."""
        self.failing = False
        if first:
            block, memory = int(self.generator.initial_seed() + first) % first, aligned_buffer(BLOCK)
            place = np.array([stream]), np.array([block]), np.array([address_of(memory)], np.uint64)
            layer.store.fetch(*place)
            layer.store.verify(*place)
            layer.store.decode(*place)
            np.testing.assert_array_equal(memory, self.decoded(number, stream, block))
        sequence, head = divmod(stream, KV_HEADS)
        assert torch.equal(layer.tail.window(sequence)[head], self.truth[number][sequence, head, first * 32 :])


def smallest_run(expected, bits):
    """The least DRAM limit that an error names."""
    with tempfile.TemporaryDirectory() as folder:
        run = ColdRun(folder, 0, dram_limit=1, expected_tokens=expected, cold_bits=bits)
        with pytest.raises(MemoryLimitError, match=r"scales of cold blocks [1-9]") as caught:
            run.forward(2)
        run.device.close()
    return int(str(caught.value).partition("at least ")[2].partition(" bytes")[0].replace(",", ""))


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**31), policy=st.sampled_from(names()), prompt=st.integers(1, 400),
    spare=st.integers(0, 40), alpha=st.sampled_from([None, 0.15, 0.6, 1.0]), watched=st.booleans(),
    bits=st.sampled_from([8, 4]), beta=st.sampled_from([None, 0.5]), layout=st.sampled_from(LAYOUTS),
    operations=st.lists(OPERATION, max_size=5),
)  # fmt: skip
def test_nothing_is_lost_and_the_budget_holds(
    seed, policy, prompt, spare, alpha, watched, bits, beta, layout, operations
):
    expected = prompt + 1 + sum(value if kind in ("steps", "prompt") else 1 for kind, value in operations)
    with tempfile.TemporaryDirectory() as folder:
        mode = emergency(alpha) if watched else None
        limit = smallest_run(expected, bits) + spare * 7919
        run = ColdRun(
            folder, seed, mode, dram_limit=limit, alpha=alpha, policy=policy, beta=beta, expected_tokens=expected,
            cold_bits=bits, layout=layout,
        )  # fmt: skip
        run.play(prompt, operations, mode)


def test_the_smallest_limit_is_the_least_that_works(tmp_path):
    smallest = smallest_run(330, 8)
    assert smallest > smallest_run(298, 8)  # a block more of scales
    for limit, fits in ((smallest, True), (smallest - 1, False)):
        (tmp_path / str(limit)).mkdir()
        run = ColdRun(tmp_path / str(limit), 1, dram_limit=limit, expected_tokens=330, cold_bits=8)
        if fits:
            for tokens in (300, *[1] * 30):
                run.forward(tokens)
                run.check()
            assert run.cache.dram_bytes()["cold_scales"] == LAYERS * BATCH * KV_HEADS * -(-330 // 32) * 128
        else:
            with pytest.raises(MemoryLimitError, match=f"at least {smallest:,} bytes"):
                run.forward(300)


def test_blocks_that_never_left_dram_are_exact(tmp_path):
    run = ColdRun(tmp_path, 2, alpha=1.0, cold_bits=4)
    run.forward(200)
    for _ in range(200):
        run.forward(1)
    exact = {}
    for number, layer in enumerate(run.cache.layers):
        for stream, held in enumerate(layer.pool.resident):
            for slot, block in enumerate(held.tolist()):
                if block >= 0:
                    found = slot_bytes(layer.pool, stream, slot)
                    exact.setdefault(block, set()).add(run.exact_or_decoded(number, stream, block, found))
    # The prompt's blocks came from the drive, but for the sink, which stayed, and the last, which was among the newest
    # tokens when decoding began.
    assert exact[0] == {True}
    assert all(exact[block] == {False} for block in range(1, 200 // 32 - 1))
    assert all(exact[block] == {True} for block in range(200 // 32 - 1, 400 // 32 - 1))
    run.check()


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [False, True], ids=["decode", "prefill"])
def test_damaged_codes_are_never_decoded(model, ids, drive, chunked, monkeypatch):
    limit = smallest_limit(model, ids, budget=160, cold_bits=8, expected_tokens=370)  # cannot hold a selection
    cache = nearkv.TieredCache(model, drive, budget=160, dram_limit=limit, cold_bits=8, expected_tokens=370)
    with torch.inference_mode():
        model(ids, cache=cache, use_cache=True)
        store, pool = cache.tiered_layers[0].store, cache.tiered_layers[0].pool
        for offset in store._kv_offset[0, :7].tolist():
            drive.data[offset + 77] ^= 1
        decoded, resident = [], pool.resident.copy()
        monkeypatch.setattr(ColdBlocks, "decode", lambda cold, *place: decoded.append(cold.layer))
        with pytest.raises(StorageError, match=r"KV block \d of layer 0, head 0, sequence 0 is damaged"):
            model(ids[:, : 20 if chunked else 1], cache=cache, use_cache=True)
    assert not decoded
    assert (pool.resident == resident).all()


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        (0, float("nan"), "the key of token 75 is not finite"),
        (1, float("inf"), "the value of token 75 is not finite"),
        (1, 1e37, "the value of token 75 is too large for cold_bits"),
    ],
)
def test_what_has_no_code_is_named(tmp_path, part, value, said):
    run = Run(tmp_path, 1, cold_bits=8)
    layer = run.cache.layers[1]
    pairs = torch.randn(BATCH, KV_HEADS, 100, 2, HEAD_DIM)
    pairs[1, 0, 75, part, 9] = value
    with pytest.raises(ContractError, match=f"layer 1, KV head 0, sequence 1: {said}"):
        layer.load(pairs[..., 0, :], pairs[..., 1, :])


def test_a_context_that_outgrows_its_scales_is_refused(tmp_path):
    run = Run(tmp_path, 3, dram_limit=1 << 20, expected_tokens=256, cold_bits=8)
    run.forward(250)
    for _ in range(37):
        run.forward(1)
    with pytest.raises(MemoryLimitError, match=r"288 tokens are more than 256.*give more expected_tokens"):
        run.forward(1)


def test_without_a_limit_scales_grow_with_the_context(tmp_path):
    run = ColdRun(tmp_path, 3, expected_tokens=64, cold_bits=8)
    for tokens in (200, 1):
        run.forward(tokens)
    run.check()
    assert run.cache.dram_bytes()["cold_scales"] == LAYERS * BATCH * KV_HEADS * (2 + 64) * 128


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"cold_bits": 6}, "8 or 4 bits per value of cold K and V"),
        ({"cold_bits": 8, "dram_limit": 1 << 20}, "needs expected_tokens"),
    ],
)
def test_settings_that_cannot_be_are_refused(chosen, said):
    with pytest.raises(ValueError, match=said):
        nearkv.TierConfig(budget=BUDGET, **chosen)


def test_a_block_that_takes_as_many_pages_either_way_is_refused():
    with pytest.raises(UnsupportedError, match=r"cold_bits=8 saves nothing at head size 32 in torch\.float16"):
        Geometry(1, 1, 32, torch.float16, 4, 8)


@pytest.mark.parametrize(
    ("head_dim", "dtype", "bits", "pages"),
    [
        (64, torch.float32, 8, (4, 1)), (64, torch.float16, 8, (2, 1)), (64, torch.bfloat16, 4, (2, 1)),
        (128, torch.bfloat16, 8, (4, 2)), (128, torch.bfloat16, 4, (4, 1)), (80, torch.float16, 8, (3, 2)),
    ],
)  # fmt: skip
def test_pages_in_memory_and_on_the_drive(head_dim, dtype, bits, pages):
    geometry = Geometry(1, 1, head_dim, dtype, 4, bits)
    assert (geometry.kv_block_bytes // PAGE, geometry.drive_block_bytes // PAGE) == pages
