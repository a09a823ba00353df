"""A small model with random weights, and what it generates through a device."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

import nearkv
from nearkv.cache.config import TierConfig
from nearkv.cache.tiered import TieredCache
from nearkv.report import path_counters, run_report
from nearkv.session import Session

NEW_TOKENS = 12


def tiny_model() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=101, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=1024,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return nearkv.attach(AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval())


def generate(model: Any, url: str, bits: int) -> tuple[list[int], dict[str, Any]]:
    """The tokens after a prompt of 300, with a budget of 160, and the report of the run."""
    prompt = torch.randint(3, 101, (300,), generator=torch.Generator().manual_seed(3))
    with TieredCache(model, url, TierConfig(budget=160, bits=bits)) as cache:
        session = Session(model, cache)
        session.prefill(prompt, lambda _: None)
        before = path_counters(cache)
        tokens = session.greedy(NEW_TOKENS, frozenset(), lambda _: None)
        return tokens, run_report(cache, session, before)
