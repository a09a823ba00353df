"""What is not supported is refused by name, never ignored."""

import pytest
import torch
from transformers import DeepseekV3Config, Gemma2Config, GptOssConfig, Qwen3NextConfig, T5Config

import nearkv
from nearkv import UnsupportedError
from nearkv.attention import nearkv_attention

from tests.host.conftest import BASE, make_model
from tests.host.memory_device import MemoryDevice


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (T5Config(), "encoder-decoder"),
        (DeepseekV3Config(), "MLA"),
        (Gemma2Config(), "softcapping"),
        (Qwen3NextConfig(), "linear_attention"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_models_that_cannot_be_tiered(config, said):
    with pytest.raises(UnsupportedError, match=said):
        nearkv.TieredCache(config, MemoryDevice())


def test_attention_sinks_are_refused():
    torch.manual_seed(0)
    from transformers import AutoModelForCausalLM

    config = GptOssConfig(
        **{
            **BASE,
            "head_dim": 32,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "layer_types": ["full_attention"] * 3,
        }
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    try:
        nearkv.attach(model)
    except UnsupportedError:
        return
    cache = nearkv.TieredCache(model, MemoryDevice())
    with torch.inference_mode(), pytest.raises(UnsupportedError, match="s_aux"):
        model(torch.randint(3, 101, (1, 40)), cache=cache, use_cache=True)


@pytest.fixture
def prepared():
    model = nearkv.attach(make_model("llama"))
    cache = nearkv.TieredCache(model, MemoryDevice())
    with torch.inference_mode():
        model(torch.randint(3, 101, (2, 40)), cache=cache, use_cache=True)
    return model, cache


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("softcap", 30.0),
        ("s_aux", torch.zeros(4)),
        ("position_bias", torch.zeros(1)),
        ("sliding_window", 16),
        ("new_thing", 1),
    ],
)
def test_attention_arguments_are_refused_by_name(prepared, argument, value):
    _, cache = prepared
    layer = cache.layers[0]
    with pytest.raises(UnsupportedError, match=argument):
        nearkv_attention(torch.nn.Module(), torch.zeros(2, 4, 1, 32), layer, layer, None, **{argument: value})


def test_dropout_and_full_attention_are_refused(prepared):
    _, cache = prepared
    layer = cache.layers[0]
    for arguments, said in (({"dropout": 0.1}, "dropout"), ({"is_causal": False}, "not causal")):
        with pytest.raises(UnsupportedError, match=said):
            nearkv_attention(torch.nn.Module(), torch.zeros(2, 4, 1, 32), layer, layer, None, **arguments)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda cache: cache.reorder_cache(torch.tensor([1, 0])), "beam search"),
        (lambda cache: cache.crop(1), "cropped"),
        (lambda cache: cache.batch_repeat_interleave(2), "repeat"),
        (lambda cache: cache.batch_select_indices(torch.tensor([0])), "select"),
        (lambda cache: cache.reset(), "reset"),
    ],
)
def test_cache_operations_are_refused(prepared, call, said):
    with pytest.raises(UnsupportedError, match=said):
        call(prepared[1])


def test_beam_search_is_refused(prepared):
    model, _ = prepared
    with pytest.raises(UnsupportedError, match=r"beam search|repeat"):
        model.generate(
            torch.randint(3, 101, (1, 40)),
            cache=nearkv.TieredCache(model, MemoryDevice()),
            num_beams=2,
            max_new_tokens=4,
        )


@pytest.mark.parametrize("where", [slice(-5, None), slice(10, 12)], ids=["right", "gap"])
def test_padding_that_is_not_on_the_left(where):
    model = nearkv.attach(make_model("llama"))
    mask = torch.ones(2, 40, dtype=torch.long)
    mask[0, where] = 0
    with torch.inference_mode(), pytest.raises(UnsupportedError, match="left padding"):
        model(torch.randint(3, 101, (2, 40)), attention_mask=mask, cache=nearkv.TieredCache(model, MemoryDevice()))


def test_a_model_that_was_not_attached():
    with pytest.raises(UnsupportedError, match=r"nearkv\.attach"):
        nearkv.TieredCache(make_model("llama"), MemoryDevice())


@pytest.mark.parametrize(
    ("settings", "said"), [({"budget": 64}, "too small"), ({"bits": 5}, "4 or 8"), ({"policy": "magic"}, "there are")]
)
def test_settings_are_checked(settings, said):
    with pytest.raises(ValueError, match=said):
        nearkv.TierConfig(**settings)
