"""A model generates the same tokens through the simulated RTL kernel as through the emulated drive."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

import nearkv
from nearkv.cache.tiered import TieredCache
from nearkv.report import path_counters, run_report
from nearkv.session import Session


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=101, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=1024,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return nearkv.attach(AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval())


@pytest.mark.parametrize("bits", [4, 8])
def test_the_same_tokens_and_the_same_bytes(model, rtl_library, tmp_path, bits):
    prompt = torch.randint(3, 101, (300,), generator=torch.Generator().manual_seed(3))
    runs = {}
    for scheme in ("emulated", "rtl"):
        config = nearkv.cache.config.TierConfig(budget=160, bits=bits)
        with TieredCache(model, f"{scheme}:{tmp_path}/{scheme}?ddr=64MiB", config) as cache:
            session = Session(model, cache)
            session.prefill(prompt, lambda _: None)
            before = path_counters(cache)
            tokens = session.greedy(12, frozenset(), lambda _: None)
            runs[scheme] = tokens, run_report(cache, session, before)
    assert len(runs["rtl"][0]) == 12
    assert runs["rtl"][0] == runs["emulated"][0]
    emulated, simulated = runs["emulated"][1], runs["rtl"][1]
    assert simulated["bytes_by_path"] == emulated["bytes_by_path"]
    assert simulated["hit_rate"] == emulated["hit_rate"]
    device = simulated["device"]
    assert device["simulated"]
    assert 0.4 < device["beats_per_cycle"] <= 1, "rows of 16 bytes take two passes, all others one"
    assert 0 < device["beats_per_cycle_end_to_end"] < device["beats_per_cycle"]
    assert device["kernel_starts"] > 0
