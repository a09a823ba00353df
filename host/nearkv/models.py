"""Which models nearkv can tier, and the reason for each that it cannot."""

from __future__ import annotations

from typing import Any

from transformers.cache_utils import get_layer_types_and_kwargs

from nearkv.errors import UnsupportedError

ATTENTION = "nearkv"
"""Name under which nearkv's attention is registered; variants of it begin with the same name."""

TIERED, WINDOWED = "full_attention", "sliding_attention"

_REFUSED_FIELDS = {
    "kv_lora_rank": "multi-head latent attention (MLA)",
    "num_kv_shared_layers": "KV sharing between layers",
    "alibi": "ALiBi position bias",
}


def layer_plan(config: Any) -> list[tuple[str, dict[str, Any]]]:
    """(layer type, arguments) of every layer of ``config``'s text decoder.

    Raises UnsupportedError naming the first thing that nearkv does not tier: encoder-decoders, MLA, linear or chunked
    attention, softcapping, attention sinks as parameters, shared KV.
    """
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedError(f"{config.model_type}: encoder-decoder models (cross attention) are not supported")
    text = config.get_text_config(decoder=True)
    for field, meaning in _REFUSED_FIELDS.items():
        if getattr(text, field, None):
            raise UnsupportedError(f"{text.model_type}: {meaning} is not supported ({field} is set)")
    if getattr(text, "attn_logit_softcapping", None):
        raise UnsupportedError(f"{text.model_type}: attention softcapping is not supported (attn_logit_softcapping)")
    types, arguments = get_layer_types_and_kwargs(text)
    for number, kind in enumerate(types):
        if kind not in (TIERED, WINDOWED):
            raise UnsupportedError(f"{text.model_type}: layer {number} is of type {kind}, which is not supported")
    if TIERED not in types:
        raise UnsupportedError(f"{text.model_type}: no layer attends to the whole context, there is nothing to tier")
    return list(zip(types, arguments, strict=True))
