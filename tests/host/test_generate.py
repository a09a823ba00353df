"""Generation with a small budget: through transformers' generate, and independent of placement."""

import numpy as np
import pytest
import torch

import nearkv
from nearkv.errors import ContractError, StorageError
from nearkv.policy import names
from nearkv.tiers.emergency import EmergencyConfig, EmergencyMode, Settings
from nearkv.tiers.link import Link
from nearkv.tiers.window_scaling import WindowPlan

from tests.host.answers import answer, decode, smallest_limit
from tests.host.conftest import make_model
from tests.host.memory_device import MemoryDevice


def test_generate_reads_only_what_it_selects(model, ids, drive):
    _, cache = answer(model, ids, drive, budget=160)
    blocks = drive.counters.drive_to_host // cache.tiered_layers[0].geometry.kv_block_bytes
    assert blocks == cache.stats.misses + cache.stats.warm_blocks
    assert cache.stats.misses >= cache.stats.reads > 0
    assert drive.counters.blocks_scored > 0
    assert cache.stats.bad_score_blocks == 0


def test_a_pool_that_holds_everything_asks_the_drive_nothing(model, ids, drive):
    cache = nearkv.TieredCache(model, drive, budget=1024)
    with torch.inference_mode():
        model(ids, cache=cache, use_cache=True)
        decode(model, ids, cache, 1)
    assert drive.counters.commands == 0
    older = ids.shape[1] // 32 - 1  # one sealed block is among the newest tokens
    assert cache.stats.warm_blocks == older * 4 * len(cache.tiered_layers)
    assert cache.stats.misses == 0


@pytest.mark.parametrize("policy", names())
def test_tokens_do_not_depend_on_the_policy(model, ids, policy):
    smallest = smallest_limit(model, ids, budget=160)
    reference, _ = answer(model, ids, MemoryDevice(), budget=160)
    for limit in (smallest, 2 * smallest):
        out, cache = answer(model, ids, MemoryDevice(), budget=160, dram_limit=limit, policy=policy)
        assert torch.equal(out, reference)
        assert sum(cache.dram_bytes().values()) <= limit


def teacher_forced(model, ids, **settings):
    """Logits of the last 50 of ``ids``, each a decode step, and the cache."""
    cache = nearkv.TieredCache(model, MemoryDevice(), budget=160, **settings)
    with torch.inference_mode():
        model(ids[:, :-50], cache=cache, use_cache=True)
        steps = [model(ids[:, at : at + 1], cache=cache, use_cache=True).logits for at in range(-50, -1)]
    return torch.cat(steps, dim=1), cache


def loaded():
    """An emergency mode for which a batch of two is a load, on a link that is capped but never slept for."""
    link = Link(1e9, clock=lambda: 0.0, sleep=lambda seconds: None)
    return EmergencyMode(Settings(None, 4, 1.0), EmergencyConfig(batch=1), link=link)


PLACEMENTS = {
    "newest": lambda folder: {"warm_up": False},
    "alpha": lambda folder: {"alpha": 0.25, "policy": "lookahead"},
    "all of it": lambda folder: {"alpha": 1.0},
    "plan": lambda folder: {"window_plan": window_plan(folder), "policy": "hit_rate"},
    "plan and alpha": lambda folder: {"window_plan": window_plan(folder), "alpha": 0.5},
    "emergency": lambda folder: {"emergency": loaded(), "dram_limit": 1 << 20},
}


def window_plan(folder):
    blocks = np.array([[1, 9], [0, 3], [4, 4]])
    WindowPlan("llama", blocks, blocks).save(folder / "plan.json")
    return str(folder / "plan.json")


@pytest.fixture(scope="module")
def smallest_pool(model, ids):
    """Logits with the smallest hot pool there is."""
    logits, cache = teacher_forced(model, ids, dram_limit=smallest_limit(model, ids, budget=160))
    assert cache.stats.misses > 0
    return logits, cache.stats.misses


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_logits_do_not_depend_on_placement(model, ids, placement, smallest_pool, tmp_path):
    reference, misses = smallest_pool
    logits, cache = teacher_forced(model, ids, **PLACEMENTS[placement](tmp_path))
    assert torch.equal(logits, reference)
    assert cache.stats.misses != misses  # it was placed differently
    quotas = np.stack([layer.pool.quota for layer in cache.tiered_layers])
    if "plan" in placement:
        shares = (quotas - 1).reshape(3, 2, 2)[:, 0]
        assert shares[0, 1] > shares[2].max() > shares[1].min()
    if placement == "plan":
        assert (quotas - 1).sum() == quotas.size * (2 * 4 - 1)  # as many as equal shares: twice the four selected
    assert [event.what for event in cache.stats.events] == (["alpha", "link_share"] if placement == "emergency" else [])


def test_a_mode_that_means_something_else_by_normal_is_refused(model):
    with pytest.raises(ValueError, match=r"returns to alpha 0\.2 and 8 bits, this cache is set to alpha None and 4"):
        nearkv.TieredCache(model, MemoryDevice(), dram_limit=1 << 20, emergency=EmergencyMode(Settings()))
    with pytest.raises(ValueError, match="set dram_limit"):
        nearkv.TieredCache(model, MemoryDevice(), emergency=EmergencyMode(Settings()))


def test_a_damaged_score_block_is_left_out_and_counted(model, ids, drive):
    cache = nearkv.TieredCache(model, drive, budget=160)
    with torch.inference_mode():
        model(ids, cache=cache, use_cache=True)
        run = cache.tiered_layers[0].store.streams[0].runs[0]
        drive.data[run.offset + 100] ^= 1
        model(ids[:, :1], cache=cache, use_cache=True)
    assert cache.stats.bad_score_blocks == 1


def test_a_damaged_kv_block_is_never_attended(model, ids, drive):
    smallest = smallest_limit(model, ids, budget=160)  # a pool that cannot hold a selection
    cache = nearkv.TieredCache(model, drive, budget=160, dram_limit=smallest)
    with torch.inference_mode():
        model(ids, cache=cache, use_cache=True)
        store = cache.tiered_layers[0].store
        for offset in store._kv_offset[0, :7].tolist():
            drive.data[offset] ^= 1
        with pytest.raises(StorageError, match=r"KV block \d of layer 0, head 0, sequence 0 is damaged"):
            decode(model, ids, cache, 20)


def test_a_failed_write_surfaces(model, ids, drive):
    drive.fail_writes = 1
    cache = nearkv.TieredCache(model, drive, budget=160)
    with torch.inference_mode(), pytest.raises(StorageError, match="full"):
        model(ids, cache=cache, use_cache=True)


def test_a_failed_read_leaves_the_pool_as_it_was(model, ids, drive):
    smallest = smallest_limit(model, ids, budget=160)  # a pool that cannot hold a selection
    cache = nearkv.TieredCache(model, drive, budget=160, dram_limit=smallest)
    with torch.inference_mode():
        model(ids, cache=cache, use_cache=True)
        before = [layer.pool.resident.copy() for layer in cache.tiered_layers]
        drive.fail_reads = 1
        with pytest.raises(StorageError, match="read failed"):
            model(ids[:, :1], cache=cache, use_cache=True)
    after = cache.tiered_layers[0].pool.resident
    assert (after == before[0]).all()


def test_keys_that_are_not_finite_are_named(ids, drive):
    model = nearkv.attach(make_model("llama"))
    with torch.no_grad():
        model.model.embed_tokens.weight[int(ids[1, 40])] = float("nan")
    cache = nearkv.TieredCache(model, drive, budget=160)
    with (
        torch.inference_mode(),
        pytest.raises(ContractError, match=r"layer 0, KV head 0, sequence \d.*token \d+ is not finite"),
    ):
        model(ids, cache=cache, use_cache=True)
