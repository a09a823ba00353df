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
from nearkv.cache.runtime import Runtime
from nearkv.cache.stats import CacheStats
from nearkv.cache.window import WindowLayer
from nearkv.errors import UnsupportedError
from nearkv.models import ATTENTION, TIERED, layer_plan
from nearkv_drivers.device import Device


class TieredCache(Cache):
    """A transformers cache whose KV lies on a computational drive, with a hot pool in DRAM.

    ``model`` (attached, see :func:`nearkv.attach`) or its config; ``device`` a Device, or a URL that is opened and
    closed with the cache; ``settings`` as in :class:`~nearkv.TierConfig`. One cache serves one prompt (or one batch).
    Use it as a context manager, or call :meth:`close`.
    """

    def __init__(
        self,
        model: PreTrainedModel | PreTrainedConfig,
        device: Device | str,
        config: TierConfig | None = None,
        **settings: Any,
    ) -> None:
        if config is not None and settings:
            raise TypeError("give either a TierConfig or its settings, not both")
        plan = layer_plan(model if isinstance(model, PreTrainedConfig) else model.config)
        if not isinstance(model, PreTrainedConfig) and not str(model.config._attn_implementation).startswith(ATTENTION):
            raise UnsupportedError("the model does not use nearkv's attention yet: call nearkv.attach(model) first")
        self.config = config if config is not None else TierConfig(**settings)
        self._owned = isinstance(device, str)
        self.drive: Device = nearkv_drivers.open(device) if isinstance(device, str) else device
        tiered = sum(kind == TIERED for kind, _ in plan)
        self._runtime = Runtime(self.config, self.drive, tiered)
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

    @property
    def tiered_layers(self) -> list[TieredLayer]:
        """The layers whose KV lies on the drive."""
        return [layer for layer in self.layers if isinstance(layer, TieredLayer) and layer.is_initialized]

    def scoring_report(self) -> dict[str, Any]:
        """How scoring was divided (``beta``) and what the first stage saved (``first_stage``); None where off."""
        return self._runtime.scoring.report()

    def dram_bytes(self) -> dict[str, int]:
        """Host bytes that hold KV now: hot pool, newest tokens, fetched blocks, prefill staging, sliding windows, and
        what scoring holds: copies of score blocks, summaries."""
        layers = self.tiered_layers
        return {
            "hot_pool": sum(layer.pool.memory.nbytes for layer in layers),
            "newest": sum(layer.tail.nbytes for layer in layers),
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
