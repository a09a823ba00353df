"""What tests of the command line run on: a tiny model folder, a text, and a look at what a run leaves behind."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"
TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom. " * 6
SIZES = {"vocab_size": 260, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 2048}


def make_folder(folder: Path, *, template: str | None = None, poison: bool = False) -> Path:
    """A random Llama of two layers with a tokenizer of one token per byte."""
    torch.manual_seed(0)
    config = LlamaConfig(**SIZES, **HEADS, bos_token_id=None, eos_token_id=None)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    if poison:
        model.model.layers[1].self_attn.k_proj.weight.data[3, 5] = float("nan")
    model.save_pretrained(folder)
    vocabulary = {symbol: number for number, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    fast.chat_template = template
    fast.save_pretrained(folder)
    return folder


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if not path.is_dir()}
