"""Cold K and V: native codes are a plain reference's to the bit, on every instruction set, and decode within a step."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv_drivers import native, row_codec
from nearkv_drivers.memory import address_of, aligned_buffer
from nearkv_drivers.row_codec import ROWS, code_bytes
from nearkv_drivers.wire import ContractError

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
HEAD_DIMS = [32, 48, 64, 80, 96, 112, 128, 176, 240, 256]
F32 = np.float32


# --- the reference: float32 steps in the order that the codec's documentation gives ---------------------------------


def butterflies(x):
    """Rows [n, d] through Hadamard blocks of the largest power of two in d, without its factor."""
    n, span = x.shape[1] & -x.shape[1], 1
    while span < n:
        pairs = x.reshape(len(x), -1, 2, span)
        x = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(x.shape)
        span *= 2
    return x


def unit(d):
    return F32(1 / np.sqrt(d & -d))


def bfloat_up(x):
    return ((x.view(np.uint32) + np.uint32(0xFFFF)) & np.uint32(0xFFFF0000)).view(F32)


def quantised(x, scale, qmax):
    return np.clip(np.rint(x / np.where(scale > 0, scale, F32(1))), -qmax, qmax)


def error_of(x, scale):
    e = x - quantised(x, scale, 7) * np.where(scale > 0, scale, F32(1))
    sums = np.zeros((len(x), 16), F32)
    for part in np.moveaxis((e * e).reshape(len(x), -1, 16), 1, 0):
        sums = sums + part
    for half in (8, 4, 2, 1):
        sums = sums[:, :half] + sums[:, half : 2 * half]
    return sums


def encode(rows, bits):
    """Codes int8 [n, d] and scales float32 [n, 1] of rows float32 [n, d]."""
    x = butterflies(rows) * unit(rows.shape[1])
    peak = np.abs(x).max(axis=1, keepdims=True)
    if bits == 8:
        scale = bfloat_up(peak / F32(127))
    else:
        scale, least = bfloat_up(peak / F32(7)), np.full_like(peak, np.inf)
        for clip in (1.0, 0.9, 0.8, 0.7):
            candidate = bfloat_up(F32(clip) * peak / F32(7))
            with np.errstate(over="ignore"):
                error = error_of(x, candidate)
            scale, least = np.where(error < least, candidate, scale), np.minimum(error, least)
    return quantised(x, scale, 2 ** (bits - 1) - 1).astype(np.int8), scale


def decode(codes, scales):
    return butterflies(codes.astype(F32)) * (scales * unit(codes.shape[1]))


def unpacked(codes, bits):
    """Codes as the drive holds them, as int8 [n, d]."""
    if bits == 8:
        return codes.view(np.int8)
    low, high = (codes << 4).view(np.int8) >> 4, codes.view(np.int8) >> 4
    return np.stack([low, high], axis=-1).reshape(len(codes), -1)


# --- blocks in memory -----------------------------------------------------------------------------------------------


class Blocks:
    """Blocks of ``values`` [n, 64, d] in memory as the cache holds them: 4,096-byte places, and their addresses."""

    def __init__(self, values):
        count, size = len(values), values[0].nbytes
        place = -(-size // 4096) * 4096
        self.memory = aligned_buffer(max(count, 1) * place).reshape(-1, place)
        self.values = torch.from_numpy(self.memory)[:, :size].view(values.dtype).view(values.shape)
        self.values.copy_(values)
        self.addresses = (address_of(self.memory) + np.arange(count) * place).astype(np.uint64)


def encoded(blocks, d, bits, dtype, isa=""):
    """(codes uint8 [n, code bytes], scales, first bad row)."""
    codes = np.full((len(blocks.addresses), code_bytes(d, bits) + 64), 0xA5, np.uint8)
    scales, bad = row_codec.encode(blocks.addresses, codes, d, bits, dtype, isa=isa)
    assert (codes[:, code_bytes(d, bits) :] == 0xA5).all()
    return np.ascontiguousarray(codes[:, : code_bytes(d, bits)]), scales, bad


def draw(seed, count, d, size):
    """Rows of every size, with zero rows and channels that dominate."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, ROWS, d)) * size * np.exp2(rng.integers(-6, 6, (count, ROWS, 1)))
    rows[:, :, 3] += size * 20
    rows[rng.random((count, ROWS)) < 0.1] = 0
    return torch.from_numpy(rows.astype(F32))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), d=st.sampled_from(HEAD_DIMS), bits=st.sampled_from([8, 4]),
    dtype=st.sampled_from(list(DTYPES)), size=st.sampled_from([1e-30, 1e-4, 1.0, 300.0, 1e30]), count=st.integers(1, 9),
)  # fmt: skip
def test_codes_are_the_references_and_every_instruction_set_agrees(seed, d, bits, dtype, size, count):
    size = min(size, 1.0) if dtype == "float16" else size
    blocks = Blocks(draw(seed, count, d, size).to(DTYPES[dtype]))
    rows = blocks.values.float().numpy().reshape(-1, d)
    q, scale = encode(rows, bits)
    for isa in native.isas():
        codes, scales, bad = encoded(blocks, d, bits, dtype, isa)
        assert bad is None
        np.testing.assert_array_equal(unpacked(codes.reshape(len(rows), -1), bits), q)
        np.testing.assert_array_equal(scales.astype(np.uint32).reshape(-1, 1) << 16, scale.view(np.uint32))
        # Codes lie inside their own target: at its end, as the cache reads them.
        found = Blocks(torch.zeros_like(blocks.values))
        found.memory[:] = 0xFF
        at = found.memory.shape[1] - -(-codes.shape[1] // 4096) * 4096
        found.memory[:, at : at + codes.shape[1]] = codes
        row_codec.decode(found.addresses + np.uint64(at), scales, found.addresses, d, bits, dtype, isa=isa)
        largest = torch.finfo(DTYPES[dtype]).max
        expected = torch.from_numpy(decode(q, scale).clip(-largest, largest)).to(DTYPES[dtype])
        assert torch.equal(found.values, expected.view(found.values.shape))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), d=st.sampled_from(HEAD_DIMS), bits=st.sampled_from([8, 4]))
def test_rows_come_back_within_what_their_bits_allow(seed, d, bits):
    blocks = Blocks(draw(seed, 3, d, 1.0))
    codes, scales, _ = encoded(blocks, d, bits, "float32")
    before = blocks.values.numpy().reshape(-1, d).copy()
    staged = Blocks(torch.zeros(3, ROWS, d))
    at = (address_of(codes) + np.arange(3) * codes.shape[1]).astype(np.uint64)
    row_codec.decode(at, scales, staged.addresses, d, bits, "float32")
    after = staged.values.numpy().reshape(-1, d)
    assert (after[(before == 0).all(axis=1)] == 0).all()
    length = np.linalg.norm(before, axis=1)
    error = np.linalg.norm(after - before, axis=1)
    if bits == 8:
        # A step is at most 1/127 of the largest rotated value, which is no longer than the row; a bfloat16 above it.
        assert (error <= length * np.sqrt(d) / 2 / 127 * (1 + 2**-7) + 1e-6).all()
    worst = {8: 0.02, 4: 0.3}[bits]
    assert np.linalg.norm(error) < worst * np.linalg.norm(length)


def test_a_channel_that_dominates_does_not_drown_the_others():
    values = torch.randn(1, ROWS, 64, generator=torch.Generator().manual_seed(1))
    values[..., 3] += 30
    codes, scales, _ = encoded(Blocks(values), 64, 4, "float32")
    back = decode(unpacked(codes.reshape(ROWS, -1), 4), (scales.astype(np.uint32).reshape(-1, 1) << 16).view(F32))
    error = np.sqrt(np.square(back - values[0].numpy()).mean(axis=0))
    plain_step = 30 / 7  # what a scale per row would give every channel without the rotation
    assert error.max() < plain_step / 2


def test_halves_are_never_infinite():
    """A decoded value may lie beyond the largest half; it becomes the largest."""
    values = torch.zeros(1, ROWS, 64)
    values[..., :4] = torch.tensor([65504.0, -65504.0, 65504.0, 30000.0])
    blocks = Blocks(values.half())
    for isa in native.isas():
        codes, scales, bad = encoded(blocks, 64, 4, "float16", isa)
        assert bad is None
        found = Blocks(torch.zeros(1, ROWS, 64, dtype=torch.float16))
        at = np.array([address_of(codes)], np.uint64)
        row_codec.decode(at, scales, found.addresses, 64, 4, "float16", isa=isa)
        assert torch.isfinite(found.values).all()
        assert float(found.values.max()) > 60000


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, row_codec.LIMIT])
@pytest.mark.parametrize("isa", native.isas())
def test_the_first_row_without_codes_is_named(value, isa):
    values = draw(5, 20, 80, 1.0)
    for block, row, at in ((13, 7, 79), (13, 9, 0), (19, 63, 5)):
        values[block, row, at] = value
    assert encoded(Blocks(values), 80, 8, "float32", isa)[2] == 13 * ROWS + 7


def test_nothing_is_encoded_to_nothing():
    scales, bad = row_codec.encode(np.empty(0, np.uint64), np.empty((0, 4096), np.uint8), 64, 8, "float32")
    assert scales.shape == (0, ROWS)
    assert bad is None


def misuse(**changed):
    blocks = Blocks(torch.zeros(1, ROWS, 64))
    given = {"sources": blocks.addresses, "codes": np.zeros((1, 4096), np.uint8), "head_dim": 64, "bits": 8,
             "dtype": "float32"}  # fmt: skip
    row_codec.encode(**(given | changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bits": 3}, "8 or 4 bits"),
        ({"head_dim": 63}, "multiple of 16"),
        ({"dtype": "int8"}, "float32, float16 or bfloat16"),
        ({"codes": np.zeros((1, 4095), np.uint8)}, "do not fit in 4095 bytes"),
        ({"codes": np.zeros(4096, np.uint8)}, r"uint8 \[blocks, bytes\]"),
        ({"sources": np.zeros(1, np.uint64)}, "cannot lie at address 0"),
        ({"sources": np.zeros(1, np.int64)}, r"uint64 \[n\] addresses"),
        ({"sources": np.zeros(2, np.uint64)}, "2 sources for 1 blocks"),
    ],
)
def test_misuse_is_refused_in_words(changed, message):
    with pytest.raises(ContractError, match=message):
        misuse(**changed)
    good = np.full(1, 4096, np.uint64)
    with pytest.raises(ContractError, match="64 scales, not 63"):
        row_codec.decode(good, np.zeros((1, 63), np.uint16), good, 64, 8, "float32")
