"""A small model's answers through a cache, and the least memory that they take."""

from __future__ import annotations

import pytest
import torch

import nearkv

from tests.host.memory_device import MemoryDevice


def answer(model, ids, drive, **settings):
    cache = nearkv.TieredCache(model, drive, **settings)
    mask = torch.ones_like(ids)
    out = model.generate(ids, attention_mask=mask, cache=cache, max_new_tokens=70, do_sample=False, min_new_tokens=70)
    return out, cache


def decode(model, ids, cache, steps):
    for _ in range(steps):
        model(ids[:, :1], cache=cache, use_cache=True)


def smallest_limit(model, ids, **settings):
    with pytest.raises(nearkv.MemoryLimitError, match="at least") as caught:
        answer(model, ids, MemoryDevice(), dram_limit=1, **settings)
    return int(str(caught.value).partition("at least ")[2].partition(" bytes")[0].replace(",", ""))
