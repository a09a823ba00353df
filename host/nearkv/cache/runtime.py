"""What the tiered layers of one cache share: the device, the policy, the DRAM limit and two work buffers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch

from nearkv.cache.buffers import BlockBuffer, aligned_bytes
from nearkv.cache.config import TierConfig
from nearkv.cache.extents import ExtentAllocator
from nearkv.cache.geometry import Geometry
from nearkv.cache.pool import LayerPool
from nearkv.cache.scoring import LayerScorer
from nearkv.cache.scoring_runtime import ScoringRuntime
from nearkv.cache.selection import MOST_OF_ONE_HEAD
from nearkv.cache.stats import CacheStats
from nearkv.cache.store import LayerStore
from nearkv.errors import MemoryLimitError
from nearkv.policy import create
from nearkv_drivers.device import Device
from nearkv_drivers.wire import BLOCK_TOKENS

DEFAULT_HOT_SHARE = 2.0
"""Hot blocks per block of a step's selection where no DRAM limit is given: consecutive selections overlap by about
three quarters, so the union of the last few steps fits, and few blocks are fetched."""

MOST_HOT_SHARE = 16
"""Hot blocks per selected block beyond which a DRAM limit is not used up, where the context's length is unknown."""


class Runtime:
    """Shared by the ``layers`` tiered layers of a cache; one step or prefill touches one layer at a time.

    ``staging`` holds one layer's full KV during prefill (the source of its write-behind), ``gather`` one layer's
    selected blocks during decode (only those fetched, where the host attends). Both are shared, so memory beyond the
    hot pool stays at one layer's.
    """

    def __init__(self, config: TierConfig, device: Device, layers: int) -> None:
        self.config = config
        self.device = device
        self.layers = layers
        self.policy = create(config.policy)
        self.allocator = ExtentAllocator()
        self.stats = CacheStats()
        self.scoring = ScoringRuntime(config, device, layers, self.stats)
        self._staging: dict[Geometry, BlockBuffer] = {}
        self._staging_user: LayerStore | None = None
        self._gather: dict[Geometry, BlockBuffer] = {}

    def selected_blocks(self, newest: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Blocks that the budget leaves each stream beside its ``newest`` [S] tokens (sinks included): int64 [S]."""
        return np.maximum((self.config.budget - newest) // BLOCK_TOKENS, 0)

    def pool(self, layer: int, geometry: Geometry) -> LayerPool:
        """The hot pool of ``layer``, its share of the DRAM limit. Raises MemoryLimitError naming what is needed."""
        share = self._hot_blocks(geometry)
        nbytes = geometry.streams * share * geometry.kv_block_bytes
        memory = aligned_bytes(nbytes).reshape(geometry.streams, share, geometry.kv_block_bytes)
        return LayerPool(layer, geometry, memory, self.policy, self.config.sink_blocks)

    def store(self, layer: int, geometry: Geometry) -> LayerStore:
        """The drive side of ``layer``."""
        return LayerStore(
            layer, geometry, self.device, self.allocator, math.ceil(self.config.expected_tokens / BLOCK_TOKENS)
        )

    def scorer(self, layer: int, geometry: Geometry, store: LayerStore) -> LayerScorer:
        """What scores the blocks of ``layer``."""
        return self.scoring.scorer(layer, geometry, store)

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

    def _hot_blocks(self, geometry: Geometry) -> int:
        """Blocks per stream that may stay hot within the DRAM limit."""
        config = self.config
        wanted = int(self.selected_blocks(np.array([config.recent_blocks * BLOCK_TOKENS]))[0])
        if config.dram_limit is None:
            return max(math.ceil(DEFAULT_HOT_SHARE * wanted), config.sink_blocks + 1)
        per_block = self.layers * geometry.streams * geometry.kv_block_bytes
        tails = self.layers * geometry.streams * (config.recent_blocks + 1) * BLOCK_TOKENS * geometry.token_bytes
        gather = geometry.streams * MOST_OF_ONE_HEAD * wanted * geometry.kv_block_bytes
        least = (config.sink_blocks + 1) * per_block
        scoring = self.scoring.reserve(geometry, config.dram_limit - tails - gather - least)
        share = (config.dram_limit - tails - gather - scoring) // per_block
        if share < config.sink_blocks + 1:
            need = tails + gather + scoring + least
            raise MemoryLimitError(
                f"a DRAM limit of {config.dram_limit:,} bytes is too small for {geometry.batch} sequence(s) at a "
                f"budget of {config.budget} tokens: at least {need:,} bytes are needed (newest tokens {tails:,}, one "
                f"layer's fetched blocks {gather:,}, summaries of blocks {scoring:,}, sink and one hot block per "
                f"stream {least:,}); raise the limit or lower the budget"
            )
        expected = math.ceil(config.expected_tokens / BLOCK_TOKENS)
        return int(min(share, expected or MOST_HOT_SHARE * wanted))
