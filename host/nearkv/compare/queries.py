"""Capture the queries of chosen steps, after the position embedding, on their way into attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask

from nearkv.attention import nearkv_attention
from nearkv.models import ATTENTION

_CAPTURING = f"{ATTENTION}_capturing"

Captured = dict[int, npt.NDArray[np.float32]]
"""Queries [heads, head size] of one step by layer."""


@contextmanager
def captured_queries(model: PreTrainedModel) -> Iterator[Captured]:
    """Within, ``model`` (attached) stores the query of the last token of each layer; one decode step at a time."""
    captured: Captured = {}

    def capturing(module: torch.nn.Module, query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        captured[int(module.layer_idx)] = query[0, :, -1].float().cpu().numpy()  # type: ignore[arg-type]
        return nearkv_attention(module, query, *args, **kwargs)

    AttentionInterface.register(_CAPTURING, capturing)
    AttentionMaskInterface.register(_CAPTURING, sdpa_mask)
    model.set_attn_implementation(_CAPTURING)
    try:
        yield captured
    finally:
        model.set_attn_implementation(ATTENTION)
