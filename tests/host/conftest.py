"""Small models of every supported family, with random weights, and a drive in memory."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    Olmo2Config,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
)

from tests.host.memory_device import MemoryDevice

BASE = {
    "vocab_size": 101,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES = {
    "llama": (LlamaConfig, {"head_dim": 32}),
    "llama-mqa": (LlamaConfig, {"head_dim": 80, "num_key_value_heads": 1}),
    "qwen2": (Qwen2Config, {"head_dim": 32}),
    "qwen3": (Qwen3Config, {"head_dim": 48}),
    "mistral": (MistralConfig, {"head_dim": 32, "sliding_window": None}),
    "phi3": (Phi3Config, {"hidden_size": 128}),
    "olmo2": (Olmo2Config, {"hidden_size": 128}),
    "gemma3": (Gemma3TextConfig, {"head_dim": 32, "sliding_window": 48, "num_hidden_layers": 6}),
}


def make_model(family: str, **overrides):
    kind, extra = FAMILIES[family]
    torch.manual_seed(0)
    config = kind(**{**BASE, **extra, **overrides})
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


@pytest.fixture
def drive():
    return MemoryDevice()
