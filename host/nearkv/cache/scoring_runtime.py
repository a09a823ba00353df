"""What the scorers of all layers share: settings, the DRAM that scoring may hold, the balance, the figures."""

from __future__ import annotations

import math
from typing import Any

from nearkv.cache.balance import Balance
from nearkv.cache.candidates import FirstStage, FirstStageStats
from nearkv.cache.config import TierConfig
from nearkv.cache.geometry import Geometry
from nearkv.cache.host_scoring import ScoreCopies
from nearkv.cache.scoring import Beside, LayerScorer
from nearkv.cache.stats import CacheStats
from nearkv.cache.store import LayerStore
from nearkv.selectors import SUMMARIES
from nearkv_drivers.device import Device
from nearkv_drivers.wire import BLOCK_TOKENS

COPIES_SHARE = 1 / 4
"""Most of the DRAM that a limit leaves beyond the least pool that copies of score blocks may take; the hot pool,
which saves transfers, has the rest."""


class ScoringRuntime:
    """Makes the scorers of ``layers`` layers, and says what they hold."""

    def __init__(self, config: TierConfig, device: Device, layers: int, stats: CacheStats) -> None:
        self._config, self._device, self._layers, self._stats = config, device, layers, stats
        self._expected = math.ceil(config.expected_tokens / BLOCK_TOKENS)
        self._scorers: list[LayerScorer] = []
        self._copied_blocks: int | None = None
        self._summarised_blocks: int | None = None
        self.balance: Balance | None = None
        self.first_stage = FirstStageStats()

    def reserve(self, geometry: Geometry, spare: int) -> int:
        """Bytes of all layers that summaries and copies of score blocks take out of a DRAM limit.

        ``spare`` is what the limit leaves beside newest tokens, fetched blocks and the least pool. Summaries take what
        the expected context needs, copies a part of what is left then.
        """
        config, streams = self._config, self._layers * geometry.streams
        expected = self._expected
        reserved = 0
        if config.first_stage is not None:
            kind = SUMMARIES[config.first_stage]
            self._summarised_blocks = expected
            reserved += streams * kind.stream_bytes(geometry.head_dim, expected)
        if config.beta is not None:
            room = int(max(spare - reserved, 0) * COPIES_SHARE) // (streams * geometry.score_block_bytes)
            share = 1.0 if isinstance(config.beta, str) else config.beta / (1 + config.beta)
            self._copied_blocks = min(room, math.ceil(expected * share)) if expected else room
            reserved += streams * self._copied_blocks * geometry.score_block_bytes
        return reserved

    def scorer(self, layer: int, geometry: Geometry, store: LayerStore) -> LayerScorer:
        """The scorer of ``layer``, after :meth:`reserve` where there is a DRAM limit."""
        config, beside, first_stage = self._config, None, None
        if config.beta is not None:
            if self.balance is None:
                self.balance = Balance(config.beta, self._stats, geometry, skewed=config.beta_skew)
            beside = Beside(ScoreCopies(geometry, self._copied_blocks, self._expected), self.balance)
        if config.first_stage is not None:
            first_stage = FirstStage(
                SUMMARIES[config.first_stage], geometry, self.first_stage, most_blocks=self._summarised_blocks,
                expected_blocks=self._expected,
                loss=config.first_stage_loss, sink_blocks=config.sink_blocks, layer=layer,
            )  # fmt: skip
        self._scorers.append(LayerScorer(self._device, store, beside, first_stage))
        return self._scorers[-1]

    def dram_bytes(self) -> dict[str, int]:
        """Host bytes by tier: copies of score blocks, and summaries."""
        besides = [scorer.beside for scorer in self._scorers if scorer.beside is not None]
        stages = [scorer.first_stage for scorer in self._scorers if scorer.first_stage is not None]
        return {
            "score_copies": sum(beside.copies.nbytes for beside in besides),
            "summaries": sum(stage.nbytes for stage in stages),
        }

    def report(self) -> dict[str, Any]:
        """What the balance and the first stage did; a part that is off is None."""
        return {
            "beta": None if self.balance is None else self.balance.report(),
            "first_stage": None if self._config.first_stage is None else self.first_stage.report(),
        }
