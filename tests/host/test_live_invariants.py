"""Invariants of the cache's own objects on an emulated drive, under any sequence of steps, loads and failed reads."""

from __future__ import annotations

import errno
import tempfile
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig

import nearkv
from nearkv.policy import names
from nearkv.tiers.emergency import EmergencyConfig, EmergencyMode, Settings
from nearkv.tiers.layout import LAYOUTS
from nearkv.tiers.link import Link
from nearkv.tiers.window_scaling import WindowPlan
from nearkv_drivers.device import Capabilities, StorageError
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.frames import FrameTable
from nearkv_drivers.memory import HUGE_PAGE, aligned_buffer
from nearkv_drivers.native_kernel import NativeKernel, reduce_native
from nearkv_drivers.staged import StagedDevice

from tests.drivers.faults import FaultyEngine
from tests.host.pools import check

LAYERS, HEADS, KV_HEADS, HEAD_DIM, BATCH = 2, 4, 2, 32, 2
CONFIG = LlamaConfig(
    hidden_size=HEADS * HEAD_DIM, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
    head_dim=HEAD_DIM,
)  # fmt: skip
MODULE = SimpleNamespace(num_key_value_groups=HEADS // KV_HEADS, is_causal=True)
UNLIMITED = ("staging", "windows")
SMALLEST = 622_592
"""The least DRAM limit for BUDGET; :func:`test_the_smallest_limit_is_the_least_that_works` holds it to that."""
BUDGET, BLOCK = 160, 32 * 2 * HEAD_DIM * 4


class Run:
    """A cache of a model that does not exist: its keys and values are drawn, and remembered as the truth."""

    def __init__(self, folder, seed, emergency=None, **chosen):
        self.generator = torch.Generator().manual_seed(seed)
        self.failing = False
        memory = aligned_buffer(8 << 20, HUGE_PAGE)
        self.device = StagedDevice(
            "emulated:test", Capabilities("emulated drive", device_dram_bytes=memory.nbytes, simulated=True),
            DriveFile(f"{folder}/drive", engine=FaultyEngine(self._fails, errno.EIO)),
            memory, NativeKernel(memory), reduce_native, FrameTable(memory.nbytes),
        )  # fmt: skip
        self.cache = nearkv.TieredCache(CONFIG, self.device, emergency=emergency, budget=BUDGET, **chosen)
        self.truth = [torch.zeros(BATCH, KV_HEADS, 0, 2, HEAD_DIM) for _ in range(LAYERS)]
        self.failures = 0

    def _fails(self, write, offsets):
        fails, self.failing = self.failing and not write, self.failing and write
        return fails

    def forward(self, tokens):
        """A prefill or a decode step; a layer whose read fails has the token all the same."""
        for number, layer in enumerate(self.cache.layers):
            pairs = torch.randn(BATCH, KV_HEADS, tokens, 2, HEAD_DIM, generator=self.generator)
            self.truth[number] = torch.cat([self.truth[number], pairs], dim=2)
            query = torch.randn(BATCH, HEADS, tokens, HEAD_DIM, generator=self.generator)
            layer.update(pairs[..., 0, :], pairs[..., 1, :])
            try:
                layer.attend(MODULE, query, None, HEAD_DIM**-0.5)
            except StorageError:
                self.failures += 1
            if tokens == 1:  # a prefill may have more on its way to the drive
                self.check_dram()

    def play(self, prompt, operations, mode):
        """A prompt of so many tokens, then ``operations``, checked after every step; then the end."""
        self.forward(prompt)
        for kind, value in [("steps", 1), *operations]:
            if kind == "load" and mode is not None:
                mode.update(BATCH + 30, value)  # another cache's batch
            elif kind == "prompt":
                self.forward(value)
            self.failing = kind == "failing step"
            for _ in range(value if kind == "steps" else 1):
                self.forward(1)
                self.check()
        self.cache.close()
        self.device.close()

    def block(self, number, stream, block):
        """What a block must hold: uint8 [block bytes]."""
        sequence, head = divmod(stream, KV_HEADS)
        return self.truth[number][sequence, head, block * 32 : block * 32 + 32].numpy().view(np.uint8).reshape(-1)

    def check(self):
        """Every block of every stream is where it should be, once per tier, and DRAM holds no byte too many."""
        self.check_dram()
        for number, layer in enumerate(self.cache.layers):
            check(layer.pool, lambda stream, block, number=number: self.block(number, stream, block))
            first = layer.tail.streams.first_block
            assert (layer.pool.quota >= np.minimum(self.cache.config.sink_blocks, first)).all()
            for stream in range(BATCH * KV_HEADS):
                self.check_stream(number, layer, stream, int(first[stream]))
                held = layer.pool.resident[stream]
                assert held.max(initial=-1) < first[stream], "a block that is among the newest tokens needs no slot"
        if self.cache.alpha is not None:
            self.check_alpha(self.cache.alpha)

    def check_dram(self):
        """DRAM holds no byte too many, whichever layers of a step have had their turn."""
        dram, limit = self.cache.dram_bytes(), self.cache.config.dram_limit
        if limit is not None:
            assert sum(nbytes for tier, nbytes in dram.items() if tier not in UNLIMITED) <= limit, dram

    def check_stream(self, number, layer, stream, first):
        """Blocks before the window from the drive, the others from the tail."""
        blocks = np.arange(first)
        memory = aligned_buffer(max(first, 1) * BLOCK)
        addresses = (memory.ctypes.data + blocks * BLOCK).astype(np.uint64)
        self.failing = False
        if first:
            layer.store.fetch(np.full(first, stream), blocks, addresses)
        for block in blocks.tolist():
            found = memory[block * BLOCK : (block + 1) * BLOCK]
            np.testing.assert_array_equal(found, self.block(number, stream, block))
        sequence, head = divmod(stream, KV_HEADS)
        assert torch.equal(layer.tail.window(sequence)[head], self.truth[number][sequence, head, first * 32 :])

    def check_alpha(self, alpha):
        """No more than alpha of the tokens is hot, or what is pinned: of every stream, or of all that share slots."""
        allowed, hot = (np.zeros((LAYERS, BATCH * KV_HEADS), np.int64) for _ in range(2))
        for number, layer in enumerate(self.cache.layers):
            first, newest, _ = layer.tail.streams
            pinned = newest + 32 * np.minimum(self.cache.config.sink_blocks, first)
            allowed[number] = np.maximum(
                [int(Fraction(str(alpha)) * count) for count in (32 * first + newest).tolist()], pinned
            )
            hot[number] = newest + 32 * (layer.pool.resident >= 0).sum(axis=1)
        if self.cache.config.window_plan is not None or self.cache.config.warm_up:
            allowed, hot = allowed.sum(axis=0), hot.sum(axis=0)
            allowed, hot = (each.reshape(BATCH, KV_HEADS).sum(axis=1) for each in (allowed, hot))
        assert (hot <= allowed).all()


def emergency(alpha, bits=4, sleep=lambda seconds: None):
    link = Link(1000.0, burst=1, clock=lambda: 0.0, sleep=sleep)
    return EmergencyMode(Settings(alpha, bits, 1.0), EmergencyConfig(batch=BATCH, calm_steps=3), link=link)


OPERATION = st.one_of(
    st.tuples(st.just("steps"), st.integers(1, 40)),
    st.tuples(st.just("failing step"), st.just(0)),
    st.tuples(st.just("load"), st.floats(0.05, 0.5)),
    st.tuples(st.just("prompt"), st.integers(2, 70)),
)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**31), prompt=st.integers(1, 400),
    spare=st.integers(0, 40), alpha=st.sampled_from([None, 0.15, 0.29, 0.6, 1.0]), watched=st.booleans(),
    planned=st.booleans(), operations=st.lists(OPERATION, max_size=6),
    chosen=st.fixed_dictionaries({"policy": st.sampled_from(names()), "beta": st.sampled_from([None, 0.5]),
                                  "layout": st.sampled_from(LAYOUTS), "redivide": st.sampled_from([0, 1, 5])}),
)  # fmt: skip
def test_nothing_is_lost_and_the_budget_holds(seed, prompt, spare, alpha, watched, planned, operations, chosen):
    with tempfile.TemporaryDirectory() as folder:
        mode = emergency(alpha) if watched else None
        plan = None
        if planned:
            blocks = np.random.default_rng(seed).integers(0, 9, (LAYERS, KV_HEADS))
            blocks[0, 0] += not blocks.any()  # a plan without a block is refused
            plan = f"{folder}/plan.json"
            WindowPlan("drawn", blocks, blocks).save(plan)
        limit = SMALLEST + spare * 7919
        run = Run(folder, seed, mode, dram_limit=limit, alpha=alpha, window_plan=plan, **chosen)
        run.play(prompt, operations, mode)


def test_the_smallest_limit_is_the_least_that_works(tmp_path):
    for limit, fits in ((SMALLEST, True), (SMALLEST - 1, False)):
        (tmp_path / str(fits)).mkdir()
        run = Run(tmp_path / str(fits), 0, dram_limit=limit)
        if fits:
            run.forward(300)
            continue
        with pytest.raises(nearkv.MemoryLimitError, match=f"at least {SMALLEST:,} bytes"):
            run.forward(300)


def test_a_failed_read_is_raised_and_the_cache_goes_on(tmp_path):
    run = Run(tmp_path, 3, dram_limit=SMALLEST)  # a pool that cannot hold a selection
    run.forward(600)
    for _ in range(6):
        run.failing = True
        run.forward(1)
        run.failing = False
        run.check()
    assert run.failures >= 4


def test_alpha_bounds_what_is_hot_and_follows_the_context(tmp_path):
    run = Run(tmp_path, 4, alpha=0.3)
    run.forward(900)
    shares = []
    for _ in range(100):
        run.forward(1)
        run.check()
        shares.append(run.cache.hot_tokens() / (run.truth[0].shape[2] * BATCH * KV_HEADS * LAYERS))
    assert 0.25 < min(shares) <= max(shares) <= 0.3
    assert run.cache.stats.hot_bound == "alpha"
    assert run.cache.stats.demotions > 0


def test_a_layer_gets_slots_only_after_another_gave_them_up(tmp_path):
    run = Run(tmp_path, 8, dram_limit=SMALLEST + 10 * LAYERS * BATCH * KV_HEADS * BLOCK, redivide=2)
    run.forward(1200)
    draw = lambda *shape: torch.randn(BATCH, *shape, generator=run.generator)  # noqa: E731
    still, totals = draw(HEADS, 1, HEAD_DIM), set()
    for _ in range(40):
        for number, layer in enumerate(run.cache.layers):
            layer.update(draw(KV_HEADS, 1, HEAD_DIM), draw(KV_HEADS, 1, HEAD_DIM))
            layer.attend(MODULE, draw(HEADS, 1, HEAD_DIM) if number == 0 else still, None, HEAD_DIM**-0.5)
            run.check_dram()
            totals.add(int(sum(each.pool.quota.sum() for each in run.cache.layers)))
    first, second = (layer.pool.quota.sum() for layer in run.cache.layers)
    assert first > second + 8  # its selections change, the other's stand still
    assert max(totals) == first + second


def test_an_emergency_moves_alpha_and_encodes_new_prompts_in_fewer_bits(tmp_path):
    mode = emergency(0.5, bits=8)
    assert mode.link.share == 1
    for number, (load, bits) in enumerate(((1, 8), (50, 4))):
        mode.update(load, 0.18)
        (tmp_path / str(number)).mkdir()
        run = Run(tmp_path / str(number), 5, mode, alpha=0.5, bits=8, dram_limit=64 << 20)
        run.forward(400)
        run.forward(1)
        assert run.cache.bits == run.cache.layers[0].geometry.bits == bits
    assert run.cache.alpha == 0.18
    assert mode.link.share == 0.7
    run.check()
    run.forward(1)  # the third calm step, the start counting as one: this cache's own batch is no load
    assert (run.cache.alpha, mode.link.share, run.cache.bits) == (0.5, 1.0, 4)
    changed = {(event.what, event.before, event.after) for event in run.cache.stats.events}
    assert {("alpha", 0.18, 0.5), ("link_share", 0.7, 1.0)} <= changed
    assert all(event.reason for event in run.cache.stats.events)
    run.check()


def test_block_fetches_pass_the_links_cap(tmp_path):
    waited = []
    mode = emergency(None, sleep=waited.append)
    run = Run(tmp_path, 6, mode, dram_limit=SMALLEST)  # a pool that cannot hold a selection
    run.forward(600)
    run.forward(1)
    assert run.cache.stats.misses > 0
    assert not waited
    mode.update(50, 0.2)
    before = run.cache.stats.misses
    run.forward(1)
    # One byte passes at once and time stands still: each fetch waits for what the ones before it owe, at 700 bytes/s.
    fetched = (run.cache.stats.misses - before) * BLOCK
    assert len(waited) == LAYERS - 1
    assert 0 < waited[-1] * 700 <= fetched
    assert run.cache.stats.seconds["link"] < run.cache.stats.seconds["fetch"]
