"""The cache that transformers sees: one layer object per model layer, tiered or windowed."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import torch
from transformers import Cache, PreTrainedModel
from transformers.configuration_utils import PreTrainedConfig

import nearkv_drivers
from nearkv.cache.config import TierConfig
from nearkv.cache.layer import TieredLayer
from nearkv.cache.observation import Watcher
from nearkv.cache.runtime import Runtime
from nearkv.cache.stats import CacheStats
from nearkv.cache.window import WindowLayer
from nearkv.errors import UnsupportedError
from nearkv.models import ATTENTION, TIERED, layer_plan
from nearkv.tiers.emergency import EmergencyMode
from nearkv.tiers.window_scaling import WindowPlan
from nearkv_drivers.device import Device
from nearkv_drivers.wire import BLOCK_TOKENS


class TieredCache(Cache):
    """A transformers cache whose KV lies on a computational drive, with a hot pool in DRAM.

    ``model`` (attached, see :func:`nearkv.attach`) or its config; ``device`` a Device, or a URL that is opened and
    closed with the cache; ``settings`` as in :class:`~nearkv.TierConfig`. One cache serves one prompt (or one batch).
    ``emergency`` is a mode that watches the load across caches; its normal settings are this cache's. Use it as a
    context manager, or call :meth:`close`.
    """

    def __init__(
        self,
        model: PreTrainedModel | PreTrainedConfig,
        device: Device | str,
        config: TierConfig | None = None,
        *,
        emergency: EmergencyMode | None = None,
        **settings: Any,
    ) -> None:
        if config is not None and settings:
            raise TypeError("give either a TierConfig or its settings, not both")
        model_config = model if isinstance(model, PreTrainedConfig) else model.config
        plan = layer_plan(model_config)
        if not isinstance(model, PreTrainedConfig) and not str(model.config._attn_implementation).startswith(ATTENTION):
            raise UnsupportedError("the model does not use nearkv's attention yet: call nearkv.attach(model) first")
        self.config = config if config is not None else TierConfig(**settings)
        tiered = [number for number, (kind, _) in enumerate(plan) if kind == TIERED]
        windows = _window_plan(self.config, len(tiered), model_config)
        _check_emergency(self.config, emergency)
        self._owned = isinstance(device, str)
        self.drive: Device = nearkv_drivers.open(device) if isinstance(device, str) else device
        self._runtime = Runtime(self.config, self.drive, tiered, windows, emergency)
        self._runtime.warm_up, self._runtime.make_room = self.warm_up, self._make_room
        super().__init__(
            layers=[
                TieredLayer(number, self._runtime) if kind == TIERED else WindowLayer(**arguments)
                for number, (kind, arguments) in enumerate(plan)
            ]
        )

    @property
    def stats(self) -> CacheStats:
        """Counters of selection and placement."""
        return self._runtime.stats

    def watch(self, watcher: Watcher) -> None:
        """Show ``watcher`` what the policy is shown from now on."""
        self._runtime.watchers.append(watcher)

    @property
    def tiered_layers(self) -> list[TieredLayer]:
        """The layers whose KV lies on the drive."""
        return [layer for layer in self.layers if isinstance(layer, TieredLayer) and layer.is_initialized]

    def scoring_report(self) -> dict[str, Any]:
        """How scoring was divided (``beta``) and what the first stage saved (``first_stage``); None where off."""
        return self._runtime.scoring.report()

    def dram_bytes(self) -> dict[str, int]:
        """Host bytes that hold KV now, by tier: see docs/cache.md for what each covers."""
        layers = self.tiered_layers
        return {
            "hot_pool": sum(layer.pool.nbytes for layer in layers),
            "newest": sum(layer.tail.nbytes for layer in layers),
            "in_flight": sum(layer.store.in_flight_bytes for layer in layers),
            "cold_scales": sum(layer.store.cold.nbytes for layer in layers if layer.store.cold is not None),
            "windows": sum(layer.nbytes for layer in self.layers if isinstance(layer, WindowLayer)),
            **self._runtime.scoring.dram_bytes(),
            **self._runtime.buffer_bytes,
        }

    def full_kv_bytes(self) -> int:
        """Bytes that a dense cache of the same tokens would hold (padding excluded)."""
        tiered = sum(
            sum(layer.tail.length) * layer.geometry.kv_heads * layer.geometry.token_bytes
            for layer in self.tiered_layers
        )
        return tiered + self.dram_bytes()["windows"]

    def load(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Take over the KV of ``layer`` ([batch, kv_heads, n, head_dim], no padding) that a dense cache computed."""
        target = self.layers[layer]
        if isinstance(target, TieredLayer):
            target.load(keys, values)
        elif isinstance(target, WindowLayer):
            target.update(keys, values)

    def warm_up(self) -> None:
        """The prompt is complete: fill the hot pool for what follows. The first decode step does it otherwise."""
        layers = self.tiered_layers
        chosen = [selected for layer in layers if (selected := layer.look_back()) is not None]
        if chosen and len(chosen) == len(layers):
            self._runtime.divide(layers[0].geometry, layers[0].tail.streams, chosen)
            self._make_room()
        for layer in layers:
            layer.fill()

    def _make_room(self) -> None:
        """Let every layer give up the slots that it may no longer have."""
        for layer in self.tiered_layers:
            layer.make_room()

    @property
    def alpha(self) -> float | None:
        """The share of tokens that may be hot now, or None where only the DRAM limit bounds them."""
        return self._runtime.alpha

    @property
    def bits(self) -> int:
        """Precision of the score blocks: the setting, unless the prompt came in an emergency."""
        return self._runtime.bits

    def hot_tokens(self) -> int:
        """Tokens, over all streams, that have a copy in DRAM: the hot pool's blocks and the newest tokens."""
        return sum(
            int((layer.pool.resident >= 0).sum()) * BLOCK_TOKENS + int(layer.tail.streams.tokens.sum())
            for layer in self.tiered_layers
        )

    def settle(self) -> None:
        """Wait until every sealed block is on the drive. Raises StorageError naming the first that failed."""
        for layer in self.tiered_layers:
            layer.store.settle()

    def close(self) -> None:
        """Settle, and close the device if the cache opened it."""
        try:
            self.settle()
        finally:
            if self._owned:
                self.drive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _window_plan(config: TierConfig, layers: int, model: PreTrainedConfig) -> WindowPlan | None:
    """The window plan of ``config``, if it has one. Raises UnsupportedError where it is not for this model's shape."""
    if config.window_plan is None:
        return None
    plan = WindowPlan.load(config.window_plan)
    text = model.get_text_config(decoder=True)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    if plan.blocks.shape != (layers, heads):
        have = " x ".join(map(str, plan.blocks.shape))
        raise UnsupportedError(
            f"{config.window_plan}: a plan for {have} layers and KV heads, made for {plan.model}; this model "
            f"has {layers} tiered layers x {heads} KV heads: profile a trace of it with `nearkv trace windows`"
        )
    return plan


def _check_emergency(config: TierConfig, emergency: EmergencyMode | None) -> None:
    """Raise ValueError where the mode and the cache do not mean the same by normal."""
    if emergency is None:
        return
    if config.dram_limit is None:
        raise ValueError("the emergency mode lets alpha follow the DRAM limit: set dram_limit")
    normal = emergency.normal
    if (normal.alpha, normal.bits) != (config.alpha, config.bits):
        raise ValueError(
            f"the emergency mode returns to alpha {normal.alpha} and {normal.bits} bits, this cache is set to alpha "
            f"{config.alpha} and {config.bits} bits: give both the same"
        )
