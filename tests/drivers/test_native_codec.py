"""The native codec writes the golden encoder's bytes, from any memory layout, and refuses what it refuses."""

import crc32c
import numpy as np
import pytest

from nearkv import contract
from nearkv_drivers import native
from nearkv_drivers.wire import ContractError, Segment


def assert_same_segment(got: Segment, want: Segment) -> None:
    np.testing.assert_array_equal(got.blocks, want.blocks)
    np.testing.assert_array_equal(got.centre, want.centre)
    assert (got.scale, got.bits, got.head_dim, got.tokens) == (want.scale, want.bits, want.head_dim, want.tokens)


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("bits", [4, 8])
def test_every_head_size(bits: int, isa: str) -> None:
    rng = np.random.default_rng(bits)
    for head_dim in range(32, 257, 16):
        for tokens in (1, 7, 32, 41, 200):
            keys = rng.standard_normal((tokens, head_dim)).astype(np.float32)
            keys *= np.exp(rng.standard_normal((tokens, 1)) * 2).astype(np.float32)
            keys += rng.standard_normal(head_dim).astype(np.float32)
            assert_same_segment(native.encode_segment(keys, bits, isa=isa), contract.encode_segment(keys, bits))


@pytest.mark.parametrize("bits", [4, 8])
def test_many_segments_from_interleaved_keys(bits: int) -> None:
    """Keys as a KV block holds them, K and V of a token beside each other, and heads a stride apart."""
    rng = np.random.default_rng(1)
    interleaved = rng.standard_normal((3, 70, 2, 64)).astype(np.float32)
    keys = interleaved[:, :, 0]
    got = native.encode_segments(keys, bits, streams=[5, 6, 2**63], first_blocks=[0, 9, 1])
    for i, (stream, first) in enumerate(((5, 0), (6, 9), (2**63, 1))):
        want = contract.encode_segment(keys[i], bits, stream=stream, first_block=first)
        assert_same_segment(got[i], want)


def test_keys_whose_last_axis_is_strided() -> None:
    keys = np.random.default_rng(2).standard_normal((64, 40)).astype(np.float32).T
    assert_same_segment(native.encode_segment(keys, 8), contract.encode_segment(np.ascontiguousarray(keys), 8))


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("bits", [4, 8])
def test_adopting(bits: int, isa: str) -> None:
    rng = np.random.default_rng(3)
    earlier = contract.encode_segment(rng.standard_normal((64, 96)).astype(np.float32) * 3, bits)
    small = rng.standard_normal((40, 96)).astype(np.float32)
    large = small.copy()
    large[17] *= 100
    assert native.can_adopt(small, earlier, isa=isa)
    assert not native.can_adopt(large, earlier, isa=isa)
    want = contract.encode_segment(small, bits, adopt=earlier)
    assert_same_segment(native.encode_segment(small, bits, adopt=earlier, isa=isa), want)
    with pytest.raises(ContractError, match="token 17 exceeds the adopted segment's scale"):
        native.encode_segment(large, bits, adopt=earlier, isa=isa)
    with pytest.raises(ContractError, match="cannot adopt the scale"):
        native.encode_segment(small, 12 - bits, adopt=earlier, isa=isa)


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_key_that_is_not_finite_is_named_by_its_token(value: float, isa: str) -> None:
    keys = np.zeros((50, 48), np.float32)
    keys[33, 47] = keys[41, 0] = value
    with pytest.raises(ContractError, match=r"the key of token 33 is not finite \(NaN or infinity\)"):
        native.encode_segment(keys, 4, isa=isa)


def test_refused_shapes() -> None:
    with pytest.raises(ContractError, match="head size 40 is not a multiple of 16"):
        native.encode_segment(np.zeros((4, 40), np.float32), 8)
    with pytest.raises(ContractError, match="at least one token"):
        native.encode_segment(np.zeros((0, 64), np.float32), 8)
    with pytest.raises(ContractError, match="not 3"):
        native.encode_segment(np.zeros((4, 64), np.float32), 3)


@pytest.mark.parametrize("scale", [0.0, 1e-30, 0.01, 1.0, 30.0])
def test_queries(scale: float) -> None:
    rng = np.random.default_rng(5)
    for head_dim in (32, 48, 64, 112, 128, 256):
        segments = [
            contract.encode_segment(rng.standard_normal((33, head_dim)).astype(np.float32) + i, 8) for i in range(3)
        ]
        for group in (1, 5, 16):
            queries = (rng.standard_normal((group, head_dim)) * scale).astype(np.float32)
            want = contract.encode_query(queries, segments, head_dim**-0.5)
            got = native.encode_query(queries, segments, head_dim**-0.5)
            for name in ("q", "c", "r", "b"):
                np.testing.assert_array_equal(getattr(got, name), getattr(want, name))


def test_refused_queries() -> None:
    segment = contract.encode_segment(np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32), 8)
    for queries, scale, message in (
        (np.full((2, 64), np.nan), 0.125, "not finite"),
        (np.full((2, 64), 1e12), 1e12, "out of range"),
        (np.zeros((17, 64)), 0.125, "1..16 heads"),
        (np.zeros((2, 32)), 0.125, "cannot score keys of head size 64"),
        (np.ones((2, 64)), -1.0, "negative or not finite"),
    ):
        with pytest.raises(ContractError, match=message):
            native.encode_query(queries, segment, scale)


@pytest.mark.parametrize("isa", native.isas())
def test_crc32c_of_every_length(isa: str) -> None:
    data = np.random.default_rng(0).integers(0, 256, 9000).astype(np.uint8)
    for length in [*range(0, 1100), 4096, 8999]:
        for offset in (0, 1):
            part = data[offset : offset + length]
            assert native.crc32c(part, 77, isa=isa) == crc32c.crc32c(part.tobytes(), 77)
    rows = data[:8000].reshape(10, 800)[::2, :700]
    want = [crc32c.crc32c(row.tobytes()) for row in rows]
    np.testing.assert_array_equal(native.crc32c_rows(rows, isa=isa), want)
