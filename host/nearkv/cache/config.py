"""What a person chooses about tiering."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nearkv.policy import names
from nearkv.selectors import SUMMARIES
from nearkv.tiers.layout import LAYOUTS, POSITION
from nearkv_drivers.wire import BLOCK_TOKENS

ADAPTIVE = "adaptive"
"""The beta that follows measured rates."""


@dataclass(frozen=True)
class TierConfig:
    """Settings of a :class:`~nearkv.TieredCache`.

    ``budget`` is the number of tokens attention may read per step and layer, for each KV head on average (the heads of
    a layer share it); ``dram_limit`` the bytes of host memory
    that may hold KV during decode, over all layers (None: twice what every layer's budget needs); ``alpha`` the share
    of a context's tokens that may be hot, newest tokens and sinks included, as the context grows (None: no such share;
    with a DRAM limit the smaller of both holds). ``window_plan`` is a file that divides the hot blocks over layers and
    KV heads (`nearkv trace windows`); without it all have equally many.
    The first ``sink_blocks`` blocks and the last ``recent_blocks`` sealed blocks with the unsealed tail are always
    attended. ``bits`` is the precision of the score blocks, ``cold_bits`` (8 or 4) that of K and V on the drive: what
    is read back from there holds as much as those bits do, what never left DRAM is in full precision; None: full
    precision everywhere. ``policy`` decides which other blocks stay hot; ``pin_newest`` is the share of every stream's
    hot blocks, sinks apart, that its newest ones take whatever the policy says. ``warm_up`` fills the pool at the end
    of a prefill with the blocks that the prompt's last queries attended to most; without it, with the newest. Every
    ``redivide`` decode steps the streams divide the hot blocks anew, by what they have selected since (0: never).
    ``expected_tokens`` sizes the drive extents of a stream so that they lie in one piece; a stream may grow past it.
    ``layout`` is the order in which a prompt's KV blocks lie on the drive (:data:`nearkv.tiers.layout.LAYOUTS`): of
    position, or such that those lie together that the prompt's last queries select together.
    ``beta`` lets the host score a part of the blocks beside the drive: host bytes per drive byte, or "adaptive", so
    that both finish together; None: the drive scores all. ``beta_skew`` adds the SmartSSD article's correction for
    uneven selections. ``first_stage`` names a summary of every block (:data:`nearkv.selectors.SUMMARIES`) that proposes
    which blocks are scored at all, so many that at most ``first_stage_loss`` of the selected attention mass is lost;
    None: every block is scored.
    """

    budget: int = 1024
    dram_limit: int | None = None
    alpha: float | None = None
    window_plan: str | None = None
    sink_blocks: int = 1
    recent_blocks: int = 1
    bits: int = 4
    cold_bits: int | None = None
    policy: str = "lookahead"
    pin_newest: float = 0.0
    warm_up: bool = True
    redivide: int = 16
    expected_tokens: int = 0
    layout: str = POSITION
    beta: float | str | None = None
    beta_skew: bool = False
    first_stage: str | None = None
    first_stage_loss: float = 0.01

    def __post_init__(self) -> None:
        smallest = (self.sink_blocks + self.recent_blocks + 2) * BLOCK_TOKENS
        if self.budget < smallest:
            raise ValueError(
                f"a budget of {self.budget} tokens is too small: sink, recent and one selected block "
                f"need at least {smallest}"
            )
        if self.bits not in (4, 8):
            raise ValueError(f"score blocks hold 4 or 8 bits per value, not {self.bits}")
        if self.cold_bits not in (None, 4, 8):
            raise ValueError(f"cold_bits are 8 or 4 bits per value of cold K and V, or None, not {self.cold_bits}")
        if self.cold_bits is not None and self.dram_limit is not None and not self.expected_tokens:
            raise ValueError(
                "cold_bits within a dram_limit needs expected_tokens: the codes' scales are reserved for that many"
            )
        if self.sink_blocks < 0 or self.recent_blocks < 1:
            raise ValueError("sink_blocks must be at least 0 and recent_blocks at least 1")
        if self.redivide < 0:
            raise ValueError(f"redivide is a number of decode steps, or 0 for never, not {self.redivide}")
        if self.alpha is not None and not 0 < self.alpha <= 1:
            raise ValueError(f"alpha is the share of tokens that stays hot, above 0 and at most 1, not {self.alpha:g}")
        if self.policy not in names():
            raise ValueError(f"no policy is called {self.policy!r}; there are: {', '.join(names())}")
        if not 0 <= self.pin_newest <= 1:
            raise ValueError(f"pin_newest is a share of the hot blocks from 0 to 1, not {self.pin_newest:g}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"no layout is called {self.layout!r}; there are: {', '.join(LAYOUTS)}")
        self._check_scoring()

    def _check_scoring(self) -> None:
        if self.beta not in (None, ADAPTIVE) and not (isinstance(self.beta, int | float) and 0 < self.beta < math.inf):
            raise ValueError(
                f"beta is a positive number of host bytes per drive byte, or {ADAPTIVE!r}, not {self.beta!r}"
            )
        if self.first_stage is None:
            return
        if self.first_stage not in SUMMARIES:
            raise ValueError(
                f"no first stage is called {self.first_stage!r}; there are: {', '.join(sorted(SUMMARIES))}"
            )
        if not 0 < self.first_stage_loss < 1:
            raise ValueError(f"first_stage_loss is a share of the selected mass in (0, 1), not {self.first_stage_loss}")
        if self.dram_limit is not None and not self.expected_tokens:
            raise ValueError(
                "a first stage within a dram_limit needs expected_tokens: its summaries are reserved for that many"
            )
