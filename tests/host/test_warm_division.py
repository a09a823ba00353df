"""The streams divide the hot pool by what a prompt and a decode select, and take no byte more for it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nearkv
from nearkv.cache.observation import prompt_selections
from nearkv.cache.tail import StreamWindows

from tests.host.memory_device import MemoryDevice

PROMPT, BUDGET = 700, 192


def windows(first_block):
    """Windows of newest tokens that start behind ``first_block`` blocks of every stream."""
    first = np.array(first_block, np.int64)
    return StreamWindows(first, np.full(len(first), 40, np.int64), np.zeros((len(first), 2), np.int32))


def plainly(shares, first, wanted, sinks, heads):
    """One query at a time: the best of all heads of a sequence, of no head more than two parts."""
    chosen = [set() for _ in shares]
    for start in range(0, len(shares), heads):
        best = []
        for stream in range(start, start + heads):
            row = [(-shares[stream, block], stream, block) for block in range(sinks, first[stream])]
            best += sorted(row)[: 2 * wanted]
        for _, stream, block in sorted(best)[: max((wanted - sinks) * heads, 1)]:
            chosen[stream].add(block)
    return chosen


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), heads=st.integers(1, 3), wanted=st.integers(2, 6), short=st.integers(0, 9))
def test_the_prompts_queries_select_as_a_decode_step_does(seed, heads, wanted, short):
    rng = np.random.default_rng(seed)
    shares = rng.permutation(2 * heads * 16 * 12).reshape(2 * heads, 16, 12).astype(np.float32) / 1e4
    first = [12] * heads + [12 - short] * heads
    found = prompt_selections(shares, np.array(first), wanted=wanted, sinks=1, kv_heads=heads)
    for query in range(16):
        expected = plainly(shares[:, query], first, wanted, 1, heads)
        for stream, row in enumerate(found[query]):
            assert set(row[row >= 0].tolist()) == expected[stream]


def tokens(batch):
    return torch.randint(3, 101, (batch, PROMPT), generator=torch.Generator().manual_seed(5))


def prefilled(model, batch=1, **settings):
    cache = nearkv.TieredCache(model, MemoryDevice(), budget=BUDGET, **settings)
    with torch.inference_mode():
        model(tokens(batch), cache=cache, use_cache=True)
    cache.warm_up()
    return cache


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("alpha", [None, 0.5])
def test_streams_share_the_slots_that_they_would_have_had(model, batch, alpha):
    equal = prefilled(model, batch, warm_up=False, alpha=alpha)
    divided = prefilled(model, batch, alpha=alpha)
    before, after = (np.stack([layer.pool.quota for layer in cache.tiered_layers]) for cache in (equal, divided))
    assert len(np.unique(before)) == 1
    assert len(np.unique(after)) > 1
    heads = before.shape[1] // batch
    for sequence in range(batch):
        columns = slice(sequence * heads, (sequence + 1) * heads)
        assert after[:, columns].sum() == before[:, columns].sum()
    assert divided.dram_bytes()["hot_pool"] == equal.dram_bytes()["hot_pool"]


def test_the_first_decode_step_divides_as_an_explicit_warm_up_does(model):
    explicit = prefilled(model)
    implicit = nearkv.TieredCache(model, MemoryDevice(), budget=BUDGET)
    with torch.inference_mode():
        model(tokens(1), cache=implicit, use_cache=True)
        model(tokens(1)[:, :1], cache=implicit, use_cache=True)
    for one, other in zip(explicit.tiered_layers, implicit.tiered_layers, strict=True):
        assert one.pool.quota.tolist() == other.pool.quota.tolist()


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("alpha", [None, 0.5])
@pytest.mark.parametrize("warm_up", [True, False])
def test_the_division_follows_a_decode_and_takes_no_slot_more(model, batch, alpha, warm_up):
    quotas = {}
    for every in (0, 4):
        cache = prefilled(model, batch, alpha=alpha, warm_up=warm_up, redivide=every)
        first = np.stack([layer.pool.quota for layer in cache.tiered_layers])
        with torch.inference_mode():
            for at in range(26):
                model(tokens(batch)[:, at : at + 1], cache=cache, use_cache=True)
        quotas[every] = np.stack([layer.pool.quota for layer in cache.tiered_layers])
        assert first.min() >= cache.config.sink_blocks
        assert quotas[every].min() >= cache.config.sink_blocks
    heads = quotas[0].shape[1] // batch
    for sequence in range(batch):
        columns = slice(sequence * heads, (sequence + 1) * heads)
        assert quotas[4][:, columns].sum() == quotas[0][:, columns].sum()
    assert (quotas[4] != quotas[0]).any()
