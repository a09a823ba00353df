"""How much of the true attention mass each selector's blocks hold, as a share of the oracle's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nearkv.compare.queries import Captured
from nearkv.selectors.mass import measure
from nearkv.session import Progress

SELECTORS = ("oracle", "int4", "int8", "quest", "mean_key", "recent")


def selected_mass(
    steps: Sequence[tuple[int, Captured]],
    keys: dict[int, torch.Tensor],
    scales: dict[int, float],
    budget: int,
    *,
    sink_blocks: int,
    recent_blocks: int,
    progress: Progress = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """Per selector {mean, worst_layer, by_layer}: its mass over the oracle's, averaged over a layer's heads and steps.

    ``steps`` are (tokens attended, queries by layer), ``keys`` [kv_heads, n, head_dim] and ``scales`` by layer.
    All selectors have the same always-attended blocks, budget and aggregation (mean of per-head softmax).
    """
    shares: dict[str, list[float]] = {name: [] for name in SELECTORS if name != "oracle"}
    visible = [tokens for tokens, _ in steps]
    for layer, layer_keys in keys.items():
        queries = np.stack([captured[layer] for _, captured in steps])
        mass = measure(
            queries,
            layer_keys[:, : max(visible)].float().cpu().numpy(),
            scales[layer],
            budget,
            sink_blocks=sink_blocks,
            recent_blocks=recent_blocks,
            selectors=SELECTORS,
            visible=visible,
        )
        for name, values in shares.items():
            values.append(float(mass[name].mean() / mass["oracle"].mean()))
        progress(1)
    return {
        name: {"mean": float(np.mean(values)), "worst_layer": float(np.min(values)), "by_layer": values}
        for name, values in shares.items()
    }
