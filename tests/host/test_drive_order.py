"""The order of blocks on the drive: packed by what is selected together, and nothing else depends on it."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig

import nearkv
from nearkv.cache.buffers import BlockBuffer
from nearkv.cache.drive_order import drive_order
from nearkv.errors import StorageError
from nearkv.tiers.layout import LAYOUTS

from tests.host.answers import smallest_limit
from tests.host.memory_device import MemoryDevice

PROMPT, STEPS, PADDING, BUDGET = 400, 10, 70, 160
TOPICS, HEAD_DIM = 4, 32
LEAST = 221_184
"""The smallest DRAM limit of a stream of such blocks: nearly every selected block is read."""


@pytest.fixture(scope="module")
def ids():
    return torch.randint(3, 101, (2, PROMPT + STEPS), generator=torch.Generator().manual_seed(5))


@pytest.fixture
def any_order(monkeypatch):
    """Blocks packed in an order that is drawn: what holds must hold whatever the queries select."""
    rng = np.random.default_rng(7)

    def drawn(queries, keys, tokens, sealed, **settings):
        order = drive_order(queries, keys, tokens, sealed, **settings)
        assert (np.sort(order) == np.arange(len(sealed))).all()
        return rng.permuted(order, axis=1)

    monkeypatch.setattr("nearkv.cache.layer.drive_order", drawn)


def prefilled(model, ids, chunk, **settings):
    """A cache after a prefill in chunks; the second sequence is padded on the left."""
    mask = torch.ones_like(ids)
    mask[1, :PADDING] = 0
    cache = nearkv.TieredCache(model, MemoryDevice(), budget=BUDGET, **settings)
    with torch.inference_mode():
        for a, b in pairwise([*range(0, PROMPT, chunk), PROMPT]):
            model(ids[:, a:b], attention_mask=mask[:, :b], cache=cache, use_cache=True)
    return cache, mask


def drive_content(layer):
    """Every block of every stream as it comes back from the drive, checked: uint8 [S, blocks, block bytes]."""
    buffer = BlockBuffer(layer.geometry)
    buffer.reserve(int(layer.store.sealed.max()))
    layer.store.read_all(buffer)
    return buffer.bytes


def is_ascending(layer):
    return all((np.diff(row[row >= 0]) > 0).all() for row in layer.store._kv_offset)


@pytest.mark.parametrize("cold_bits", [None, 8], ids=["full", "cold 8"])
@pytest.mark.parametrize("chunk", [PROMPT, 150, 70], ids=["single-shot", "chunked", "short chunks"])
def test_every_block_comes_back_whole_under_either_layout(model, ids, chunk, cold_bits, any_order):
    plain, _ = prefilled(model, ids, chunk, layout="position", cold_bits=cold_bits)
    packed, _ = prefilled(model, ids, chunk, layout="selected_together", cold_bits=cold_bits)
    assert all(is_ascending(layer) for layer in plain.tiered_layers)
    assert not any(is_ascending(layer) for layer in packed.tiered_layers)
    assert packed.drive.counters.host_to_drive == plain.drive.counters.host_to_drive  # nothing is written twice
    for one, other in zip(plain.tiered_layers, packed.tiered_layers, strict=True):
        assert one.store.sealed.tolist() == other.store.sealed.tolist() == [12, 12, 10, 10]
        np.testing.assert_array_equal(drive_content(one), drive_content(other))
        np.testing.assert_array_equal(np.sort(one.store._kv_offset), np.sort(other.store._kv_offset))


@pytest.mark.parametrize("chunk", [PROMPT, 150], ids=["single-shot", "chunked"])
def test_logits_do_not_depend_on_the_layout(model, ids, chunk, any_order):
    limit = smallest_limit(model, ids, budget=BUDGET)
    found = {}
    for layout in LAYOUTS:
        cache, mask = prefilled(model, ids, chunk, layout=layout, dram_limit=limit, warm_up=False)
        with torch.inference_mode():
            steps = [
                model(ids[:, at : at + 1], attention_mask=mask[:, : at + 1], cache=cache, use_cache=True).logits
                for at in range(PROMPT, PROMPT + STEPS)
            ]
        assert cache.stats.misses > 50
        found[layout] = torch.cat(steps, dim=1), cache.stats.misses, cache.stats.reads
    (plain, *before), (packed, *after) = found["position"], found["selected_together"]
    assert torch.equal(plain, packed)
    assert before[0] == after[0]
    assert before[1] != after[1]  # they did lie elsewhere


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_damaged_block_is_named_whatever_lies_where(model, ids, layout, any_order):
    cache, _ = prefilled(model, ids, 150, layout=layout)
    cache.settle()
    layer = cache.tiered_layers[1]
    for stream, block in ((0, 3), (3, 9)):
        offset = int(layer.store._kv_offset[stream, block])
        cache.drive.data[offset + 7] ^= 1
        sequence, head = divmod(stream, 2)
        with pytest.raises(StorageError, match=f"KV block {block} of layer 1, head {head}, sequence {sequence} is dam"):
            drive_content(layer)
        cache.drive.data[offset + 7] ^= 1
    drive_content(layer)


def test_without_queries_blocks_lie_in_order(model):
    cache = nearkv.TieredCache(model, MemoryDevice(), budget=BUDGET, layout="selected_together")
    keys = torch.randn(1, 2, PROMPT, HEAD_DIM, generator=torch.Generator().manual_seed(1))
    cache.load(0, keys, keys)
    assert is_ascending(cache.tiered_layers[0])


def test_a_layout_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="no layout is called 'random'; there are: position, selected_together"):
        nearkv.TierConfig(layout="random")


# --- blocks of a few topics, one behind the other ------------------------------------------------------------------


def topic(number):
    """A direction of its own."""
    vector = torch.zeros(HEAD_DIM)
    vector[number] = 1
    return vector


def topic_keys(blocks, generator):
    """Keys [blocks, 32, d]: block b speaks of topic b % TOPICS, the first one of nothing."""
    keys = torch.stack([topic(block % TOPICS) * (block > 0) for block in range(blocks)])[:, None]
    return keys + 0.05 * torch.randn(blocks, 32, HEAD_DIM, generator=generator)


def asking(number):
    return 40 * topic(number)


def test_blocks_that_the_last_queries_select_together_lie_together():
    keys = topic_keys(41, torch.Generator().manual_seed(2))
    queries = torch.stack([asking(1) for _ in range(32)])
    order = drive_order(
        queries[None, None], keys[None], 41 * 32, range(8, 40), scale=HEAD_DIM**-0.5, wanted=11, sinks=1
    )
    assert sorted(order[0].tolist()) == list(range(32))
    place = np.argsort(order[0])
    mine = np.sort(place[[block - 8 for block in range(8, 40) if block % TOPICS == 1]])
    assert (np.diff(mine) == 1).all()
    for block in range(31):
        if block % TOPICS in (2, 3):  # neighbours that none of them selects stay neighbours
            assert abs(place[block] - place[block + 1]) == 1


def test_queries_see_nothing_behind_them():
    keys = topic_keys(12, torch.Generator().manual_seed(3))
    queries = torch.randn(1, 1, 32, HEAD_DIM, generator=torch.Generator().manual_seed(4))
    settings = {"scale": 1.0, "wanted": 4, "sinks": 1}
    tokens = 11 * 32 + 5
    order = drive_order(queries, keys[None], tokens, range(11), **settings)
    keys[11, 5:] = 1e4  # not there yet
    np.testing.assert_array_equal(drive_order(queries, keys[None], tokens, range(11), **settings), order)


@pytest.mark.parametrize("chunk", [1280, 640], ids=["single-shot", "chunked"])
def test_packed_blocks_take_fewer_reads(chunk):
    config = LlamaConfig(hidden_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                         head_dim=HEAD_DIM)  # fmt: skip
    module = SimpleNamespace(num_key_value_groups=2, is_causal=True)
    stats = {}
    for layout in LAYOUTS:
        keys = topic_keys(40, torch.Generator().manual_seed(6)).flatten(0, 1)[None, None]
        cache = nearkv.TieredCache(config, MemoryDevice(), budget=352, layout=layout, dram_limit=LEAST)
        (layer,) = cache.layers
        for first in range(0, 1280, chunk):
            part = keys[:, :, first : first + chunk]
            layer.update(part, part)
            layer.attend(module, asking(1).expand(1, 2, chunk, HEAD_DIM), None, HEAD_DIM**-0.5)
        for _ in range(12):
            layer.update(keys[:, :, :1], keys[:, :, :1])
            layer.attend(module, asking(1).expand(1, 2, 1, HEAD_DIM), None, HEAD_DIM**-0.5)
        stats[layout] = cache.stats
    plain, packed = stats["position"], stats["selected_together"]
    assert packed.misses == plain.misses > 60
    assert packed.reads < 0.7 * plain.reads
