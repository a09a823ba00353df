"""Hybrid precision: rows survive their encoding as well as their bits allow."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv.tiers.hybrid import RowCodec


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([32, 64, 80, 128, 256]), st.floats(1e-3, 100))
def test_error_is_bounded_by_the_bits(seed, head_dim, size):
    rows = torch.randn(7, 5, head_dim, generator=torch.Generator().manual_seed(seed)) * size
    rows[0, 0] = 0
    for bits, worst in ((8, 0.02), (4, 0.3)):
        codec = RowCodec(head_dim, bits)
        data = codec.encode(rows)
        assert data.dtype == torch.uint8
        assert data.shape == (7, 5, codec.row_bytes)
        back = codec.decode(data)
        assert (back[0, 0] == 0).all()
        assert float((back - rows).norm() / rows.norm()) < worst


def test_one_channel_that_dominates_does_not_drown_the_others():
    rows = torch.randn(64, 64, generator=torch.Generator().manual_seed(1))
    rows[:, 3] += 30
    codec = RowCodec(64, 4)
    error = (codec.decode(codec.encode(rows)) - rows).square().mean(dim=0).sqrt()
    plain_step = 30 / 7  # what a scale per row would give every channel without the rotation
    assert float(error.max()) < plain_step / 2


def test_encoding_what_was_decoded_changes_nothing_more():
    codec = RowCodec(64, 8)
    rows = torch.randn(9, 64, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(2))
    once = codec.decode(codec.encode(rows))
    twice = codec.decode(codec.encode(once))
    assert float((once - twice).abs().max()) < 0.02


def test_sizes():
    assert RowCodec(64, 8).row_bytes == 66
    assert RowCodec(64, 4).row_bytes == 34


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RowCodec(64, 3), "8 or 4 bits"),
        (lambda: RowCodec(63, 4), "must be even"),
        (lambda: RowCodec(64, 8).encode(torch.full((1, 64), torch.nan)), "not finite"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
