"""Native decode attention against a float64 reference, on every instruction set, over scattered blocks and tails."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv_drivers import attention, native
from nearkv_drivers.memory import address_of, aligned_buffer
from nearkv_drivers.wire import BLOCK_TOKENS, EMPTY, ContractError

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass
class Layer:
    """Random KV in memory as a layer's pool, buffer and tail hold it; ``tokens`` are what each stream attends."""

    queries: np.ndarray
    blocks: np.ndarray
    tails: np.ndarray
    tail_tokens: np.ndarray
    tokens: list[np.ndarray]
    tail_values: list[np.ndarray]
    memory: list[np.ndarray]


def make_layer(seed, streams, group, d, count, tails, dtype, *, peak=1.0, missing=0.3) -> Layer:
    rng = np.random.default_rng(seed)
    kind = DTYPES[dtype]
    token_bytes = 2 * d * kind.itemsize
    stride = -(-BLOCK_TOKENS * token_bytes // 4096) * 4096
    memory = aligned_buffer(max(streams * count, 1) * stride)
    memory[:] = 0xFF  # NaN between and behind the values
    places = rng.permutation(streams * count).reshape(streams, count)
    blocks = np.zeros((streams, count), np.uint64)
    kept = [memory]
    tokens, newest, addresses = [], [], []
    for s in range(streams):
        parts = []
        for i in range(count):
            if rng.random() < missing:
                continue
            values = torch.from_numpy(rng.standard_normal((BLOCK_TOKENS, 2, d)).astype(np.float32)).to(kind)
            at = int(places[s, i]) * stride
            memory[at : at + BLOCK_TOKENS * token_bytes] = values.view(torch.uint8).numpy().reshape(-1)
            blocks[s, i] = address_of(memory) + at
            parts.append(values.double().numpy())
        tail = torch.from_numpy(rng.standard_normal((tails[s], 2, d)).astype(np.float32)).to(kind)
        kept.append(tail)
        addresses.append(tail.data_ptr())
        newest.append(tail.double().numpy())
        tokens.append(np.concatenate([*parts, newest[-1]]))
    queries = (rng.standard_normal((streams, group, d)) * peak).astype(np.float32)
    return Layer(queries, blocks, np.array(addresses, np.uint64), np.array(tails, np.int64), tokens, newest, kept)


def scores_of(queries, tokens, scale):
    return queries.astype(np.float64) @ tokens[:, 0].T * scale


def reference(layer: Layer, scale: float) -> np.ndarray:
    out = []
    for q, tokens in zip(layer.queries, layer.tokens, strict=True):
        scores = scores_of(q, tokens, scale)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out.append(weights @ tokens[:, 1] / weights.sum(axis=1, keepdims=True))
    return np.array(out)


def attend(layer: Layer, dtype: str, scale: float, isa: str) -> np.ndarray:
    return attention.attend(layer.queries, layer.blocks, layer.tails, layer.tail_tokens, dtype, scale, isa=isa)


@pytest.mark.parametrize("isa", native.isas())
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_equals_the_float64_reference(isa, data):
    streams, group = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 20))
    d, count = data.draw(st.sampled_from(range(32, 257, 16))), data.draw(st.integers(0, 9))
    dtype = data.draw(st.sampled_from(sorted(DTYPES)))
    tails = [data.draw(st.integers(1, 100)) for _ in range(streams)]
    layer = make_layer(data.draw(st.integers(0, 2**32)), streams, group, d, count, tails, dtype)
    scale = d**-0.5
    np.testing.assert_allclose(attend(layer, dtype, scale, isa), reference(layer, scale), rtol=0, atol=1e-6)


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("peak", [0.0, 30.0, 1000.0])
def test_extreme_scores(peak, dtype, isa):
    """Uniform weights, and softmaxes as sharp as float32 scores allow: a score's own rounding grows with it."""
    layer = make_layer(1, 3, 4, 64, 12, [70, 1, 33], dtype, peak=peak)
    steepest = max(np.abs(scores_of(q, t, 0.125)).max() for q, t in zip(layer.queries, layer.tokens, strict=True))
    got = attend(layer, dtype, 0.125, isa)
    np.testing.assert_allclose(got, reference(layer, 0.125), rtol=0, atol=1e-6 * max(1.0, steepest))


@pytest.mark.parametrize("isa", native.isas())
def test_a_long_context_is_shared_out_and_merged(isa):
    layer = make_layer(2, 3, 3, 64, 120, [64, 64, 64], "float32", missing=0.0)
    np.testing.assert_allclose(attend(layer, "float32", 0.125, isa), reference(layer, 0.125), rtol=0, atol=1e-6)
    order = np.random.default_rng(0).permutation(120)
    layer.blocks = np.ascontiguousarray(layer.blocks[:, order])
    np.testing.assert_allclose(attend(layer, "float32", 0.125, isa), reference(layer, 0.125), rtol=0, atol=1e-6)


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_is_read_exactly(dtype, isa):
    """One token, weight 1: the output is its value. All 65,536 bit patterns, subnormals, infinities and NaN too."""
    values = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(DTYPES[dtype]).reshape(-1, 256)
    pairs = torch.stack([torch.zeros_like(values), values], dim=1).contiguous()
    tails = (pairs.data_ptr() + np.arange(len(pairs)) * 2 * 256 * 2).astype(np.uint64)
    queries = np.ones((len(pairs), 1, 256), np.float32)
    blocks = np.zeros((len(pairs), 0), np.uint64)
    got = attention.attend(queries, blocks, tails, np.ones(len(pairs), np.int64), dtype, 1.0, isa=isa)
    np.testing.assert_array_equal(got[:, 0], values.float().numpy())


@pytest.mark.parametrize("isa", native.isas())
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_tail_mass(isa, data):
    streams, group = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 17))
    d, dtype = data.draw(st.sampled_from([32, 48, 64, 128, 256])), data.draw(st.sampled_from(sorted(DTYPES)))
    tails = [data.draw(st.integers(0, 100)) for _ in range(streams)]
    layer = make_layer(data.draw(st.integers(0, 2**32)), streams, group, d, 0, tails, dtype)
    got = attention.tail_mass(layer.queries, layer.tails, layer.tail_tokens, dtype, 0.1, isa=isa)
    for s, newest in enumerate(layer.tail_values):
        if not len(newest):
            assert (got[s] == EMPTY).all()
            continue
        mass = np.logaddexp.reduce(scores_of(layer.queries[s], newest, 0.1), axis=1) / math.log(2) * 256
        assert np.abs(got[s] - mass).max() <= 0.501


def test_tail_mass_stays_in_its_range():
    layer = make_layer(3, 1, 1, 32, 0, [1], "float32")
    for sign, want in ((1, 2**31 - 1), (-1, -(2**31) + 1)):
        queries = np.sign(layer.tokens[0][:1, 0]).astype(np.float32)[None] * np.float32(sign * 1e8)
        assert attention.tail_mass(queries, layer.tails, layer.tail_tokens, "float32", 1.0)[0, 0] == want


@given(count=st.integers(0, 40), length=st.sampled_from([1, 63, 4096, 65536]))
@settings(max_examples=25, deadline=None)
def test_copy_blocks(count, length):
    rng = np.random.default_rng(count)
    source = rng.integers(0, 256, (count + 1, length), np.uint8)
    target = np.zeros_like(source)
    order = rng.permutation(count)
    attention.copy_blocks(
        (address_of(source) + order * length).astype(np.uint64),
        (address_of(target) + np.arange(count) * length).astype(np.uint64),
        length,
    )
    assert (target[:count] == source[order]).all()
    assert not target[count:].any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": np.zeros((2, 2, 40), np.float32)}, "head size 40 is not a multiple of 16"),
        ({"queries": np.zeros((2, 64), np.float32)}, r"queries must be float32 \[streams, heads, head size\], not"),
        ({"queries": np.zeros((2, 2, 64))}, "queries must be float32 .*, not float64"),
        ({"queries": np.zeros((3, 2, 64), np.float32)}, "tails has 2 entries for queries of 3 streams"),
        ({"blocks": np.zeros((1, 2), np.uint64)}, "blocks has 1 entries for queries of 2 streams"),
        ({"blocks": np.zeros((2, 2), np.int64)}, "blocks must be uint64"),
        ({"blocks": np.full((2, 1), 4097, np.uint64)}, "block 0 of stream 0 does not start at a multiple of 4096"),
        ({"tails": np.zeros(2, np.uint64)}, "the tail of stream 0 cannot lie at address 0"),
        ({"tails": np.full(2, 4098, np.uint64)}, "the tail of stream 0 cannot lie at address 4098"),
        ({"tail_tokens": np.array([1, -1])}, "stream 1 has -1 tail tokens"),
        ({"tail_tokens": np.array([1, 1], np.int32)}, "tail tokens must be int64"),
        ({"tail_tokens": np.array([1, 0]), "blocks": np.zeros((2, 0), np.uint64)}, "stream 1 has no tokens"),
        ({"dtype": "float64"}, "KV must be float32, float16 or bfloat16, not float64"),
        ({"scale": math.nan}, "the attention scale must be finite"),
    ],
)
def test_refusals(change, message):
    layer = make_layer(0, 2, 2, 64, 1, [5, 5], "float32")
    arguments = {
        "queries": layer.queries,
        "blocks": layer.blocks,
        "tails": layer.tails,
        "tail_tokens": layer.tail_tokens,
        "dtype": "float32",
        "scale": 0.125,
    }
    with pytest.raises(ContractError, match=message):
        attention.attend(**(arguments | change))


def test_copy_refusals():
    one, two = np.full(1, 4096, np.uint64), np.full(2, 4096, np.uint64)
    with pytest.raises(ContractError, match="1 sources cannot be copied to 2 destinations"):
        attention.copy_blocks(one, two, 8)
    with pytest.raises(ContractError, match="block 0 of the copy has no address"):
        attention.copy_blocks(np.zeros(1, np.uint64), one, 8)
    with pytest.raises(ContractError, match="destinations must be uint64"):
        attention.copy_blocks(one, one.astype(np.int64), 8)
