"""The Python API in wrong hands: the wrong kind of argument, a cache or a device that serves something else already."""

import gc
import weakref
from pathlib import Path

import pytest
import torch

import nearkv
from nearkv_drivers import DeviceError

from tests.host.conftest import make_model
from tests.host.memory_device import MemoryDevice


@pytest.fixture(scope="module")
def model():
    return nearkv.attach(make_model("llama"))


@pytest.fixture(scope="module")
def ids():
    torch.manual_seed(3)
    return torch.randint(3, 101, (1, 200))


def forward(model, ids, cache):
    with torch.inference_mode():
        return model(ids, cache=cache).logits


@pytest.mark.parametrize("what", [None, "llama", torch.nn.Linear(2, 2)])
def test_what_is_no_model(what):
    with pytest.raises(TypeError, match=r"attach takes a transformers model, not"):
        nearkv.attach(what)
    with pytest.raises(TypeError, match=r"a transformers model or its config is needed, not"):
        nearkv.TieredCache(what, MemoryDevice())


@pytest.mark.parametrize("what", [None, 5, Path("kv.drive")])
def test_what_is_no_device(model, what):
    with pytest.raises(TypeError, match=r"a device is a URL such as emulated:"):
        nearkv.TieredCache(model, what)


def test_what_is_no_config(model):
    with pytest.raises(TypeError, match=r"config is a nearkv\.TierConfig, not dict"):
        nearkv.TieredCache(model, MemoryDevice(), {"budget": 256})


COUNTS = ("budget", "sink_blocks", "recent_blocks", "bits", "cold_bits", "expected_tokens", "dram_limit", "redivide")
WRONG = [
    *[(name, value, "is a whole number") for name in COUNTS for value in ("256", 256.0, True)],
    *[(name, value, "is a number") for name in ("alpha", "pin_newest", "first_stage_loss") for value in ("0.2", True)],
    *[(name, "no", "is True or False") for name in ("warm_up", "beta_skew")],
    ("budget", None, "is a whole number"), ("pin_newest", None, "is a number"), ("warm_up", None, "is True or False"),
    ("expected_tokens", -1, "0 where unknown"), ("beta", True, "beta is a positive number"),
    ("first_stage_loss", 2, "a share of the selected mass"), ("beta_skew", True, "set beta to 'adaptive'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "said"), WRONG)
def test_settings_of_another_kind_or_without_effect(name, value, said):
    with pytest.raises(ValueError, match=said):
        nearkv.TierConfig(**{name: value})


def test_a_budget_beyond_what_the_machine_can_address(model, ids):
    with pytest.raises(nearkv.MemoryLimitError, match=r"a layer's hot pool [\d,]+ bytes .* lower the budget"):
        forward(model, ids, nearkv.TieredCache(model, MemoryDevice(), budget=10**14))


def test_an_attached_model_may_be_attached_again(model, ids):
    before = forward(model, ids, nearkv.TieredCache(model, MemoryDevice()))
    assert nearkv.attach(nearkv.attach(model)) is model
    assert torch.equal(forward(model, ids, nearkv.TieredCache(model, MemoryDevice())), before)


@pytest.mark.parametrize("second", ["batch", "model"])
def test_a_cache_that_holds_another_batch_or_model(model, ids, second):
    cache = nearkv.TieredCache(model, MemoryDevice())
    forward(model, ids, cache)
    other = model if second == "batch" else nearkv.attach(make_model("qwen3"))
    with pytest.raises(nearkv.UnsupportedError, match=r"the cache holds 1 sequence\(s\) of 2 KV heads .* a new cache"):
        forward(other, ids.repeat(2 if second == "batch" else 1, 1), cache)


def test_a_device_serves_one_cache_at_a_time(model, ids):
    drive = MemoryDevice()
    first, second = (nearkv.TieredCache(model, drive, budget=128) for _ in range(2))
    forward(model, ids, first)
    expected = forward(model, ids.flip(1), nearkv.TieredCache(model, MemoryDevice(), budget=128))
    assert torch.equal(forward(model, ids.flip(1), second), expected)
    for more in (1, 40):  # a decode step, a piece of a prompt
        with pytest.raises(DeviceError, match=r"another cache has written to .* serves one cache at a time"):
            forward(model, ids[:, :more], first)
    forward(model, ids[:, :1], second)


def test_a_device_is_not_kept_alive_by_the_caches_that_it_served(model, ids):
    drive = MemoryDevice()
    gone = weakref.ref(drive)
    forward(model, ids, nearkv.TieredCache(model, drive))
    del drive
    gc.collect()
    assert gone() is None
