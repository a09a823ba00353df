"""Small models of every supported family, with random weights, a drive in memory, and the command line."""

from __future__ import annotations

import sys

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

from nearkv import attach
from nearkv.cli.main import run

from tests.host.command_line import TEMPLATE, TEXT, files, make_folder
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


@pytest.fixture(scope="module")
def model():
    """The smallest one, which attends through nearkv."""
    return attach(make_model("llama"))


@pytest.fixture(scope="module")
def ids():
    """Two prompts of 300 tokens."""
    return torch.randint(3, 101, (2, 300), generator=torch.Generator().manual_seed(3))


@pytest.fixture
def drive():
    return MemoryDevice()


# --- the command line ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("chat"), template=TEMPLATE)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Everything that a run may write: its cache, its temporary files and its working folder."""
    for name in ("cache", "tmp", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("NEARKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # read when transformers was imported
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def text_file(home):
    path = home / "work" / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def nearkv(home, monkeypatch, capsys):
    """Run a command line; returns (exit code, standard output, lines of standard error)."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["nearkv", *map(str, arguments)])
        capsys.readouterr()
        code = run()
        said = capsys.readouterr()
        return code, said.out, [line for line in said.err.splitlines() if line.strip()]

    return call


@pytest.fixture
def fails(nearkv, home):
    """Run a command line that must fail with one sentence and leave nothing behind."""

    def call(*arguments, code=1, said):
        before = files(home)
        got, _, lines = nearkv(*arguments)
        assert got == code, lines
        assert len(lines) == 1, lines
        assert lines[0].startswith("error: ")
        assert said in lines[0]
        assert files(home) == before

    return call
