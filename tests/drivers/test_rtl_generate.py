"""A model generates the same tokens through the simulated RTL kernel as through the emulated drive."""

from __future__ import annotations

import pytest
from tiny_model import NEW_TOKENS, generate


@pytest.mark.parametrize("bits", [4, 8])
def test_the_same_tokens_and_the_same_bytes(model, rtl_library, tmp_path, bits):
    runs = {
        scheme: generate(model, f"{scheme}:{tmp_path}/{scheme}?ddr=64MiB", bits) for scheme in ("emulated", "rtl")
    }  # fmt: skip
    assert len(runs["rtl"][0]) == NEW_TOKENS
    assert runs["rtl"][0] == runs["emulated"][0]
    emulated, simulated = runs["emulated"][1], runs["rtl"][1]
    assert simulated["bytes_by_path"] == emulated["bytes_by_path"]
    assert simulated["hit_rate"] == emulated["hit_rate"]
    device = simulated["device"]
    assert device["simulated"]
    assert 0.4 < device["beats_per_cycle"] <= 1, "rows of 16 bytes take two passes, all others one"
    assert 0 < device["beats_per_cycle_end_to_end"] < device["beats_per_cycle"]
    assert device["kernel_starts"] > 0
