"""What the tiered layers of one cache share: the device, the policy, what may be hot, and two work buffers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from nearkv.cache.buffers import BlockBuffer
from nearkv.cache.cold import ColdBlocks
from nearkv.cache.config import TierConfig
from nearkv.cache.extents import ExtentAllocator
from nearkv.cache.geometry import Geometry
from nearkv.cache.hot_budget import HotBudget, selected_blocks
from nearkv.cache.observation import Watcher
from nearkv.cache.pool import LayerPool
from nearkv.cache.scoring import LayerScorer
from nearkv.cache.scoring_runtime import ScoringRuntime
from nearkv.cache.stats import CacheStats
from nearkv.cache.store import LayerStore
from nearkv.cache.tail import StreamWindows
from nearkv.policy import create
from nearkv.tiers.emergency import EmergencyMode
from nearkv.tiers.window_scaling import WindowPlan
from nearkv_drivers.device import Device
from nearkv_drivers.wire import BLOCK_TOKENS


class Runtime:
    """Shared by the tiered ``layers`` (their numbers in the model); one step or prefill touches one layer at a time.

    ``staging`` holds one layer's full KV during prefill (the source of its write-behind), ``gather`` one layer's
    selected blocks during decode (only those fetched, where the host attends). Both are shared, so memory beyond the
    hot pool stays at one layer's.
    """

    def __init__(
        self,
        config: TierConfig,
        device: Device,
        layers: Sequence[int],
        plan: WindowPlan | None = None,
        emergency: EmergencyMode | None = None,
    ) -> None:
        self.config = config
        self.device = device
        self.layers = list(layers)
        self.policy = create(config.policy)
        self.watchers: list[Watcher] = []
        self.allocator = ExtentAllocator()
        self.stats = CacheStats()
        self.scoring = ScoringRuntime(config, device, len(self.layers), self.stats)
        self._hot = HotBudget(config, len(self.layers), plan, self.scoring.reserve)
        self._emergency = emergency
        self.warm_up: Callable[[], None] = lambda: None
        """Warms all layers up: what one learns of the prompt decides what the others get."""
        self.make_room: Callable[[], None] = lambda: None
        """Lets all layers give up slots that they may no longer have, before any of them gets more."""
        self._divided = False
        self._bits: int | None = None
        self._staging: dict[Geometry, BlockBuffer] = {}
        self._staging_user: LayerStore | None = None
        self._writer: LayerStore | None = None
        self._gather: dict[Geometry, BlockBuffer] = {}

    def selected_blocks(self, newest: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Blocks that the budget leaves each stream beside its ``newest`` [S] tokens (sinks included): int64 [S]."""
        return selected_blocks(self.config, newest)

    # --- what holds now --------------------------------------------------------------------------------------------

    def geometry(self, keys: torch.Tensor) -> Geometry:
        """The geometry of a layer whose first ``keys`` are [batch, kv_heads, n, head_dim]."""
        batch, kv_heads, tokens, head_dim = keys.shape
        if self._bits is None:
            # The batch is known from here on: whether this cache starts in an emergency is decided now.
            kv_bytes = batch * max(tokens, self.config.expected_tokens) * kv_heads * 2 * head_dim * keys.element_size()
            self._watch(batch, kv_bytes)
            active = self._emergency is not None and self._emergency.active
            self._bits = self._emergency.settings.bits if self._emergency and active else self.config.bits
        return Geometry(batch, kv_heads, head_dim, keys.dtype, self._bits, self.config.cold_bits)

    def begin_step(self, layer: int, geometry: Geometry, newest: StreamWindows) -> None:
        """A decode step of ``layer``; the first one's stands for the model's."""
        if layer != self.layers[0]:
            return
        steps, every = self.stats.steps, self.config.redivide
        self._divided = bool(every and steps and steps % every == 0)
        if self._divided:
            self._hot.redivide(geometry, newest, self.alpha)
            self.make_room()
        self.stats.steps += 1
        if self._emergency is not None:
            tokens = int((newest.first_block * BLOCK_TOKENS + newest.tokens).sum())
            self._watch(geometry.batch, tokens * geometry.token_bytes)

    def quota(self, layer: int, geometry: Geometry, newest: StreamWindows) -> npt.NDArray[np.int64]:
        """Slots of ``layer``'s streams in the hot pool, int64 [S]. Raises MemoryLimitError for a limit too small."""
        quota, bound = self._hot.quota(self.layers.index(layer), geometry, newest, self.alpha)
        self.stats.hot_bound = bound
        return quota

    def divide(self, geometry: Geometry, newest: StreamWindows, chosen: Sequence[npt.NDArray[np.int32]]) -> None:
        """Divide the slots of every sequence by what its prompt's last queries ``chosen`` in each layer."""
        self._hot.divide(geometry, newest, chosen, self.alpha)

    def observe(self, layer: int, selected: npt.NDArray[np.int32]) -> None:
        """A selection of ``layer`` in a decode step, int32 [S, k], -1 padded, sinks first: the division follows it."""
        if self.config.redivide:
            self._hot.observe(self.layers.index(layer), selected[:, self.config.sink_blocks :])

    @property
    def quota_moves(self) -> bool:
        """Whether the slots that a layer may use may have changed with this decode step."""
        return self._divided or self.config.alpha is not None or self._emergency is not None

    @property
    def alpha(self) -> float | None:
        """The share of tokens that may be hot now, or None."""
        if self._emergency is not None and self._emergency.active:
            return self._emergency.settings.alpha
        return self.config.alpha

    @property
    def bits(self) -> int:
        """Precision of this cache's score blocks."""
        return self.config.bits if self._bits is None else self._bits

    def _watch(self, batch: int, layer_kv_bytes: int) -> None:
        """Tell the emergency mode about the load; a layer's full KV would take ``layer_kv_bytes``."""
        if self._emergency is not None and self.config.dram_limit is not None:
            share = self.config.dram_limit / max(layer_kv_bytes * len(self.layers), 1)
            self.stats.events += self._emergency.update(batch, share)

    # --- the two sides of a layer ----------------------------------------------------------------------------------

    def pool(self, layer: int, geometry: Geometry, newest: StreamWindows) -> LayerPool:
        """The hot pool of ``layer``. Raises MemoryLimitError naming what is needed."""
        quota = self.quota(layer, geometry, newest)
        return LayerPool(layer, geometry, self.policy, self.config.sink_blocks, quota, self.config.pin_newest)

    def store(self, layer: int, geometry: Geometry) -> LayerStore:
        """The drive side of ``layer``."""
        expected = math.ceil(self.config.expected_tokens / BLOCK_TOKENS)
        cold = None
        if geometry.cold_bits is not None:
            cold = ColdBlocks(layer, geometry, None if self.config.dram_limit is None else expected, expected)
        return LayerStore(layer, geometry, self.device, self.allocator, expected, cold)

    def scorer(self, layer: int, geometry: Geometry, store: LayerStore) -> LayerScorer:
        """What scores the blocks of ``layer``."""
        return self.scoring.scorer(layer, geometry, store)

    def fetch(
        self,
        store: LayerStore,
        streams: npt.NDArray[np.int64],
        blocks: npt.NDArray[np.int64],
        addresses: npt.NDArray[np.uint64],
    ) -> int:
        """Read ``blocks`` of ``streams`` from the drive to host ``addresses``, all [n]; check and decode them.

        Passes through the link's cap where an emergency mode may set one. Returns the number of drive reads.
        """
        nbytes = len(streams) * store.geometry.drive_block_bytes
        link = None if self._emergency is None else self._emergency.link
        if link is not None:
            with self.stats.timed("link"):
                link.take(nbytes)
        start = time.perf_counter()
        reads = store.fetch(streams, blocks, addresses)
        if link is not None:
            link.measured(nbytes, time.perf_counter() - start)
        store.verify(streams, blocks, addresses)
        if store.cold is not None:
            with self.stats.timed("decode"):
                store.decode(streams, blocks, addresses)
        return reads

    def write_behind(self, store: LayerStore) -> None:
        """Wait for the layer before, as ``store`` is about to write: buffers of one layer's blocks are enough then."""
        if self._writer is not None and self._writer is not store:
            self._writer.settle()
        self._writer = store

    # --- work buffers ----------------------------------------------------------------------------------------------

    def staging(self, geometry: Geometry, user: LayerStore, blocks: int, device: torch.device) -> BlockBuffer:
        """The buffer of one layer's full KV, at least ``blocks`` per stream, once its last user's writes are done."""
        if self._staging_user is not None:
            self._staging_user.settle()
        self._staging_user = user
        return self._buffer(self._staging, geometry, blocks, device)

    def gather(self, geometry: Geometry, blocks: int, device: torch.device) -> BlockBuffer:
        """The buffer of one layer's selected blocks, at least ``blocks`` per stream, once its last copies are done."""
        buffer = self._buffer(self._gather, geometry, blocks, device)
        buffer.wait_until_free()
        return buffer

    def release_staging(self) -> None:
        """Give the prefill buffers back once decode begins."""
        if self._staging:
            if self._staging_user is not None:
                self._staging_user.settle()
            self._staging_user = None
            self._staging.clear()

    @property
    def buffer_bytes(self) -> dict[str, int]:
        """Bytes of the work buffers."""
        return {
            "staging": sum(buffer.nbytes for buffer in self._staging.values()),
            "gather": sum(buffer.nbytes for buffer in self._gather.values()),
        }

    def _buffer(
        self, held: dict[Geometry, BlockBuffer], geometry: Geometry, blocks: int, device: torch.device
    ) -> BlockBuffer:
        buffer = held.get(geometry)
        if buffer is None:
            buffer = held[geometry] = BlockBuffer(geometry, pinned=device.type == "cuda")
        buffer.reserve(blocks)
        return buffer
