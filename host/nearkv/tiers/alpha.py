"""Alpha in tokens, exactly: how many may be hot, and how many blocks of a stream's pool that leaves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from nearkv_drivers.wire import BLOCK_TOKENS

ALPHA = 0.2
"""Share of a context's tokens that stays hot by default (the SmartSSD article's)."""


@dataclass(frozen=True)
class AlphaBudget:
    """``hot_tokens`` may be in DRAM: ``pinned_tokens`` (sinks and newest tokens) and the pool's other blocks."""

    hot_tokens: int
    pinned_tokens: int
    pool_blocks: int

    @property
    def pinned_only(self) -> bool:
        """Whether the pinned tokens alone take more than alpha allows."""
        return self.pinned_tokens > self.hot_tokens


def alpha_budget(tokens: int, alpha: float, *, sink_blocks: int, newest_tokens: int) -> AlphaBudget:
    """What alpha allows for a stream of ``tokens``, whose sinks and ``newest_tokens`` are pinned.

    The newest tokens are the unsealed tail and the sealed blocks that are kept with it. Token-exact: floor(alpha ·
    tokens) in rational arithmetic, because 0.29 · 100 is below 29 in floating point. Attention always reads what is
    pinned, so that stays hot even where a short context's alpha is less.
    """
    if not 0 <= newest_tokens <= tokens or not 0 < alpha <= 1:
        raise ValueError(
            f"alpha must lie in (0, 1] and the newest tokens among all, not {alpha}, {newest_tokens} of {tokens}"
        )
    hot = int(Fraction(str(alpha)) * tokens)
    older = (tokens - newest_tokens) // BLOCK_TOKENS
    sinks = min(older, sink_blocks)
    pinned = sinks * BLOCK_TOKENS + newest_tokens
    pool = min(max(hot - pinned, 0) // BLOCK_TOKENS, older - sinks)
    return AlphaBudget(hot, pinned, pool)
