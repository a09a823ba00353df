"""Record a trace from a dense model: one teacher-forced pass, its true queries and keys, exact scores.

What a decode step would attend to is what the same position attends to in a prefill over the whole text, so one
prefill yields every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from nearkv.selectors.base import block_log_mass
from nearkv.selectors.mass import group_share
from nearkv.tiers.warmup import prompt_shares
from nearkv.trace.format import Trace, TraceError, TraceInfo
from nearkv.trace.rank import rank
from nearkv_drivers.wire import BLOCK_TOKENS

_NAME = "nearkv_trace_dense"


def record_dense(
    model: PreTrainedModel,
    token_ids: torch.Tensor,
    steps: int,
    *,
    budget: int,
    dram_fraction: float = 0.3,
    sink_blocks: int = 1,
    recent_blocks: int = 2,
    prompt_queries: int = 32,
    model_name: str = "",
    text: str = "",
    progress: Callable[[int], None] = lambda layer: None,
) -> Trace:
    """The selections that exact scores would make in the last ``steps`` positions of ``token_ids`` [1, n].

    The ``prompt_queries`` positions before those are recorded as the end of the prompt, for warm-up.

    Only layers that attend to the whole context take part (sliding-window layers keep their KV in DRAM). Rankings
    reach as far as a pool of ``dram_fraction`` of the context can hold. ``progress`` is called with each layer that
    is done. Raises TraceError for a text too short for the steps or a model without full-attention layers.
    """
    n, blocks = int(token_ids.shape[1]), -(-int(token_ids.shape[1]) // BLOCK_TOKENS)
    selected = budget // BLOCK_TOKENS - sink_blocks - recent_blocks
    if selected < 1:
        raise TraceError(f"a budget of {budget} tokens leaves no block beside {sink_blocks + recent_blocks} always in")
    first = _first_recorded(token_ids, steps, prompt_queries, budget)
    width = min(blocks, max(budget // BLOCK_TOKENS, int(blocks * dram_fraction)) + selected)
    visible = np.arange(first, n, dtype=np.int64) + 1
    ranked, priority, prompt, kv_bytes = [], [], [], 0

    def layer_done(query: torch.Tensor, key: torch.Tensor, scale: float) -> None:
        nonlocal kv_bytes
        heads = query.shape[0] // key.shape[0]
        share = _share(query[:, first:], key, scale, first)
        prompt.append(prompt_shares(share[:, :prompt_queries]))
        flat = share.reshape(-1, blocks)
        count = -(-np.tile(visible, len(key)) // BLOCK_TOKENS)
        order, value = rank(flat, count, sink_blocks, recent_blocks, width, heads)
        ranked.append(order.reshape(len(key), len(visible), width))
        priority.append(value.reshape(len(key), len(visible), width))
        kv_bytes = 2 * BLOCK_TOKENS * key.shape[2] * key.element_size()
        progress(len(ranked))

    with observed_attention(model, layer_done), torch.no_grad():
        model.base_model(token_ids.to(model.device), use_cache=False)
    if not ranked:
        raise TraceError(f"{model_name or 'the model'} has no layer that attends to the whole context")
    info = TraceInfo(
        model=model_name, text=text, scorer="exact", layers=len(ranked), streams=len(ranked[0]),
        block_tokens=BLOCK_TOKENS, sink_blocks=sink_blocks, recent_blocks=recent_blocks,
        selected_blocks=selected, kv_block_bytes=kv_bytes, prompt_steps=prompt_queries,
    )  # fmt: skip
    return Trace(
        info,
        np.stack(ranked).transpose(2, 0, 1, 3).copy(),
        np.stack(priority).transpose(2, 0, 1, 3).copy(),
        visible.astype(np.uint32),
        np.stack(prompt).astype(np.float32),
    )


def _first_recorded(token_ids: torch.Tensor, steps: int, prompt_queries: int, budget: int) -> int:
    """Position of the first query to record. Raises TraceError for no steps, or a prompt before it below ``budget``."""
    n = int(token_ids.shape[1])
    if steps < 1:
        raise TraceError(f"a trace needs a decode step or more, not {steps}")
    first = n - steps - prompt_queries
    if token_ids.shape[0] != 1 or first < budget:
        raise TraceError(
            f"{n} tokens are too few to record {steps} steps behind a prompt of the budget's {budget} tokens: "
            f"{steps + prompt_queries + budget} are needed"
        )
    return first


def _share(query: torch.Tensor, key: torch.Tensor, scale: float, start: int) -> npt.NDArray[np.float32]:
    """Share of the mass, [KVH, P, blocks], for ``query`` [H, P, d] from position ``start`` and ``key`` [KVH, n, d]."""
    group, steps = query.shape[0] // key.shape[0], query.shape[1]
    future = torch.arange(key.shape[1], device=key.device) > torch.arange(steps, device=key.device)[:, None] + start
    pad = -key.shape[1] % BLOCK_TOKENS
    out = []
    for head in range(key.shape[0]):
        scores = torch.matmul(query[head * group : (head + 1) * group].float(), key[head].float().T) * scale
        scores = scores.masked_fill(future, -torch.inf)
        scores = torch.nn.functional.pad(scores, (0, pad), value=-torch.inf)
        mass = block_log_mass(scores.reshape(group * steps, -1).cpu().numpy()).reshape(group, steps, -1)
        out.append(group_share(mass.transpose(1, 0, 2)))
    return np.stack(out)


@contextmanager
def observed_attention(
    model: PreTrainedModel, done: Callable[[torch.Tensor, torch.Tensor, float], None]
) -> Iterator[None]:
    """Within it, every layer that attends to the whole context hands what it attends with to ``done``.

    ``done`` gets the queries [H, n, d] and keys [KVH, n, d] of the first sequence, after the position embedding, and
    the softmax scale.
    """

    def attend(
        module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, **kwargs: Any
    ) -> Any:
        if getattr(module, "sliding_window", None) is None:
            scaling = kwargs.get("scaling")
            done(query[0], key[0], query.shape[-1] ** -0.5 if scaling is None else float(scaling))
        return sdpa_attention_forward(module, query, key, value, mask, **kwargs)

    before = model.config._attn_implementation
    AttentionInterface.register(_NAME, attend)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    model.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
