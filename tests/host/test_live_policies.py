"""Policies act in the cache as they do in a replay of what the cache selected: hit for hit, miss for miss."""

import numpy as np
import pytest
import torch

import nearkv
from nearkv.cache import observation
from nearkv.policy import create, names
from nearkv.tiers.warmup import prompt_shares
from nearkv.trace.format import Trace, TraceInfo
from nearkv.trace.replay import replay

from tests.host.conftest import make_model
from tests.host.memory_device import MemoryDevice

PROMPT, STEPS, BUDGET = 500, 70, 192


class Recorder:
    """Records what a cache shows its policy, step by step and layer by layer, and the prompt's shares."""

    def __init__(self, monkeypatch):
        self.steps, self.shares = [], []
        show_step, show_prompt = observation.show_step, observation.show_prompt

        def step(policy, layer, results, selected, priority, newest):
            if layer == 0:
                self.steps.append([])
            self.steps[-1].append((observation._ranking(results), selected.copy(), priority.copy(), newest.copy()))
            show_step(policy, layer, results, selected, priority, newest)

        def prompt(policy, layer, shares, newest, **settings):
            self.shares.append((shares, newest, settings))
            show_prompt(policy, layer, shares, newest, **settings)

        monkeypatch.setattr("nearkv.cache.layer.show_step", step)
        monkeypatch.setattr("nearkv.cache.layer.show_prompt", prompt)

    def trace(self, recent):
        """What was recorded as a trace: always-in blocks, then those selected, then the rest of the ranking."""
        chosen = max(selected.shape[1] for step in self.steps for _, selected, _, _ in step) - 1
        rows = [[self._row(layer, chosen, recent) for layer in step] for step in self._prompt() + self.steps]
        width = max(blocks.shape[1] for step in rows for blocks, _ in step)
        ranked = np.full((len(rows), len(rows[0]), len(rows[0][0][0]), width), -1, np.int32)
        priority = np.zeros(ranked.shape, np.uint32)
        for t, step in enumerate(rows):
            for layer, (blocks, found) in enumerate(step):
                ranked[t, layer, :, : blocks.shape[1]] = blocks
                priority[t, layer, :, : blocks.shape[1]] = found
        shape = ranked.shape
        prompt_steps = len(rows) - len(self.steps)
        info = TraceInfo("model", "text", "live", shape[1], shape[2], 32, 1, recent, chosen, 4096, prompt_steps)
        tokens = np.arange(PROMPT + 1 - prompt_steps, PROMPT + 1 + len(self.steps), dtype=np.uint32)
        shares = [prompt_shares(each) for each, _, _ in self.shares]
        prompt = np.stack(shares) if shares else np.zeros((shape[1], shape[2], 40), np.float32)
        return Trace(info, ranked, priority, tokens, np.pad(prompt, ((0, 0), (0, 0), (0, 8))))

    def _prompt(self):
        """The prompt's queries as steps."""
        seen = []
        for shares, newest, settings in self.shares:
            shown = Shown()
            observation.show_prompt(shown, 0, shares, newest, **settings)
            seen.append(shown.steps)
        return [list(step) for step in zip(*seen, strict=True)]

    def _row(self, recorded, chosen, recent):
        (ranked, found), selected, priority, newest = recorded
        streams = len(selected)
        blocks = [np.zeros((streams, 1), np.int32), np.full((streams, recent), -1, np.int32)]
        blocks[1][:, : newest.shape[1]] = newest
        picked = np.full((streams, chosen), -1, np.int32)
        shares = np.zeros((streams, chosen), np.uint32)
        sink_share = np.zeros((streams, 1), np.uint32)
        for stream, row in enumerate(selected):
            mine = (row >= 0) & (row != 0)
            picked[stream, : mine.sum()] = row[mine]
            shares[stream, : mine.sum()] = priority[stream, mine]
            sink_share[stream] = priority[stream, row == 0]
        return (
            np.concatenate([*blocks, picked, ranked], axis=1),
            np.concatenate([sink_share, np.zeros((streams, recent), np.uint32), shares, found], axis=1),
        )


class Shown:
    """A policy that keeps what it is shown, in the recorder's form."""

    def __init__(self):
        self.steps = []

    def rank(self, layer, ranked, priority):
        self.ranked = ranked, priority

    def observe(self, layer, selected, priority):
        newest = selected.shape[1] - self.ranked[0].shape[1] // 2
        self.steps.append((self.ranked, selected[:, newest:], priority[:, newest:], selected[:, :newest]))

    def values(self, layer, blocks): ...
    def forget(self, layer, stream): ...


@pytest.fixture(scope="module")
def model():
    return nearkv.attach(make_model("llama"))


@pytest.fixture(scope="module")
def ids():
    return torch.randint(3, 101, (1, PROMPT + STEPS), generator=torch.Generator().manual_seed(11))


@pytest.mark.parametrize("warm_up", [True, False], ids=["warm", "newest"])
@pytest.mark.parametrize(("policy", "pin_newest"), [*((name, 0.0) for name in names()), ("hit_rate", 0.4)])
@pytest.mark.parametrize("redivide", [0, 8])
def test_live_counts_are_those_of_a_replay(model, ids, policy, pin_newest, warm_up, redivide, monkeypatch):
    recorder = Recorder(monkeypatch)
    chosen = {"policy": policy, "pin_newest": pin_newest, "warm_up": warm_up, "redivide": redivide}
    cache = nearkv.TieredCache(model, MemoryDevice(), budget=BUDGET, **chosen)
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
    result = replay(recorder.trace(recent=2), create(policy), quota - 1, **arguments)
    stats = cache.stats
    assert (stats.hits, stats.misses) == (result.hits, result.needed - result.hits)
    assert (stats.promotions, stats.demotions) == (result.promotions, result.demotions)
    assert min(stats.hits, stats.misses, stats.demotions) > 50
