"""Policies act in the cache as they do in a replay of what the cache selected: hit for hit, miss for miss."""

import numpy as np
import pytest
import torch

import nearkv
from nearkv.policy import create, names
from nearkv.trace.live import LiveRecorder
from nearkv.trace.replay import replay

from tests.host.conftest import make_model
from tests.host.memory_device import MemoryDevice

PROMPT, STEPS, BUDGET = 500, 70, 192


@pytest.fixture(scope="module")
def model():
    return nearkv.attach(make_model("llama"))


@pytest.fixture(scope="module")
def ids():
    return torch.randint(3, 101, (1, PROMPT + STEPS), generator=torch.Generator().manual_seed(11))


@pytest.mark.parametrize("warm_up", [True, False], ids=["warm", "newest"])
@pytest.mark.parametrize(("policy", "pin_newest"), [*((name, 0.0) for name in names()), ("hit_rate", 0.4)])
@pytest.mark.parametrize("redivide", [0, 8])
def test_live_counts_are_those_of_a_replay(model, ids, policy, pin_newest, warm_up, redivide):
    chosen = {"policy": policy, "pin_newest": pin_newest, "warm_up": warm_up, "redivide": redivide}
    cache = nearkv.TieredCache(model, MemoryDevice(), budget=BUDGET, **chosen)
    recorder = LiveRecorder(cache)
    with torch.inference_mode():
        model(ids[:, :PROMPT], cache=cache, use_cache=True)
        cache.warm_up()
        quota = np.stack([layer.pool.quota for layer in cache.tiered_layers])
        for at in range(PROMPT, PROMPT + STEPS):
            model(ids[:, at : at + 1], cache=cache, use_cache=True)
    divided = np.stack([layer.pool.quota for layer in cache.tiered_layers])
    assert divided.sum() == quota.sum()
    assert (divided != quota).any() == bool(redivide)
    arguments = {"warm": warm_up, "pin_newest": pin_newest, "redivide": redivide}
    result = replay(recorder.trace(), create(policy), quota - 1, **arguments)
    stats = cache.stats
    assert (stats.hits, stats.misses) == (result.hits, result.needed - result.hits)
    assert (stats.promotions, stats.demotions) == (result.promotions, result.demotions)
    assert min(stats.hits, stats.misses, stats.demotions) > 50
