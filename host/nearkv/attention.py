"""The attention and mask functions that nearkv registers with transformers, and :func:`attach`."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from nearkv.cache.layer import TieredLayer
from nearkv.errors import UnsupportedError
from nearkv.models import ATTENTION, layer_plan

_WITHOUT_EFFECT = frozenset({"position_ids", "cache_position", "use_cache", "output_hidden_states", "return_dict"})
"""Arguments that models pass through and that do not change attention."""


def nearkv_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor | TieredLayer,
    value: torch.Tensor | TieredLayer,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention output [batch, n, heads, head_dim] for ``query`` [batch, heads, n, head_dim].

    ``key`` is a tiered layer, or a tensor (sliding windows, other caches), which goes to SDPA. Raises UnsupportedError
    naming any argument that a tiered layer would have to ignore.
    """
    if not isinstance(key, TieredLayer):
        assert isinstance(value, torch.Tensor)
        output, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return output, None
    _refuse_unknown(key.layer, dropout, kwargs)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return key.attend(module, query, attention_mask, scale), None


def _refuse_unknown(layer: int, dropout: float, kwargs: dict[str, Any]) -> None:
    if dropout:
        raise UnsupportedError(f"layer {layer}: attention dropout is not supported; call model.eval()")
    if kwargs.get("is_causal") is False:
        raise UnsupportedError(f"layer {layer}: attention that is not causal is not supported")
    for name, setting in kwargs.items():
        if name not in _WITHOUT_EFFECT and name != "is_causal" and setting is not None and setting is not False:
            raise UnsupportedError(f"layer {layer}: the attention argument {name!r} is not supported by nearkv")


def attach(model: PreTrainedModel) -> PreTrainedModel:
    """Make ``model`` use nearkv's attention, so that a :class:`~nearkv.TieredCache` may be passed as ``cache``.

    Other caches keep working (they go to SDPA). Returns the model. Raises UnsupportedError naming what the model has
    that nearkv does not support.
    """
    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"attach takes a transformers model, not {type(model).__name__}")
    layer_plan(model.config)
    if not getattr(model, "_supports_attention_backend", False):
        raise UnsupportedError(f"{type(model).__name__} does not let its attention function be replaced")
    AttentionInterface.register(ATTENTION, nearkv_attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    model.set_attn_implementation(ATTENTION)
    return model
