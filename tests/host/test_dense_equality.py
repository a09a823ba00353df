"""With a budget for everything, nearkv's logits are the dense model's."""

from itertools import pairwise

import pytest
import torch

import nearkv

from tests.host.conftest import FAMILIES, make_model
from tests.host.memory_device import MemoryDevice

PROMPT, STEPS, PADDING = 200, 40, 37


def dense_and_near(model, ids, mask, chunk, **settings):
    model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        reference = model(ids, attention_mask=mask).logits
        nearkv.attach(model)
        cache = nearkv.TieredCache(model, MemoryDevice(), **settings)
        edges = [*range(0, PROMPT, chunk), *range(PROMPT, ids.shape[1]), ids.shape[1]]
        parts = [
            model(ids[:, a:b], attention_mask=mask[:, :b], cache=cache, use_cache=True).logits
            for a, b in pairwise(edges)
        ]
    return reference, torch.cat(parts, dim=1), cache


@pytest.mark.parametrize("chunk", [PROMPT, 64], ids=["single-shot", "chunked"])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_dense_at_full_budget(family, chunk):
    model = make_model(family)
    ids = torch.randint(3, 101, (2, PROMPT + STEPS), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, :PADDING] = 0
    reference, near, cache = dense_and_near(model, ids, mask, chunk, budget=1024)
    assert (near - reference)[mask.bool()].abs().max() < 1e-5
    assert cache.stats.hits + cache.stats.misses > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_follows_dense(dtype):
    model = make_model("llama").to(dtype)
    ids = torch.randint(3, 101, (1, PROMPT + STEPS), generator=torch.Generator().manual_seed(1))
    reference, near, _ = dense_and_near(model, ids, torch.ones_like(ids), 64, budget=1024)
    assert (near - reference).abs().max() < 0.02


def test_a_sequence_that_is_padding_for_a_whole_chunk():
    model = make_model("llama")
    ids = torch.randint(3, 101, (2, PROMPT + STEPS), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :70] = 0
    reference, near, _ = dense_and_near(model, ids, mask, 64, budget=1024)
    assert (near - reference)[mask.bool()].abs().max() < 1e-5


def test_a_prompt_of_one_token():
    model = nearkv.attach(make_model("llama"))
    ids = torch.randint(3, 101, (1, 60), generator=torch.Generator().manual_seed(1))
    cache = nearkv.TieredCache(model, MemoryDevice(), budget=1024)
    with torch.inference_mode():
        near = [model(ids[:, i : i + 1], cache=cache, use_cache=True).logits for i in range(60)]
        reference = model(ids).logits
    assert (torch.cat(near, dim=1) - reference).abs().max() < 1e-5


def test_attached_models_still_work_with_other_caches():
    model = make_model("llama")
    ids = torch.randint(3, 101, (1, 50))
    with torch.inference_mode():
        reference = model(ids).logits
        assert torch.equal(nearkv.attach(model)(ids, use_cache=True).logits, reference)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; torch sees none")
def test_logits_equal_dense_on_a_gpu():
    model = make_model("llama").to("cuda")
    ids = torch.randint(3, 101, (2, PROMPT + STEPS), generator=torch.Generator().manual_seed(1)).to("cuda")
    mask = torch.ones_like(ids)
    mask[1, :PADDING] = 0
    reference, near, _ = dense_and_near(model, ids, mask, 64, budget=1024)
    assert (near - reference)[mask.bool()].abs().max() < 1e-4
