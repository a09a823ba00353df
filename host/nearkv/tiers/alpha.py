"""Alpha in tokens, exactly: how many may be hot, and how many blocks of a stream's pool that leaves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from nearkv_drivers.wire import BLOCK_TOKENS

ALPHA = 0.2
"""Share of a context's tokens that stays hot by default (the SmartSSD article's)."""


@dataclass(frozen=True)
class AlphaBudget:
    """``hot_tokens`` may be in DRAM: ``pinned_tokens`` (sink, recent blocks, unsealed tail) and the pool's blocks."""

    hot_tokens: int
    pinned_tokens: int
    pool_blocks: int

    @property
    def used_tokens(self) -> int:
        """Tokens in DRAM with the pool full: never above ``hot_tokens``."""
        return self.pinned_tokens + self.pool_blocks * BLOCK_TOKENS


def alpha_budget(tokens: int, alpha: float, *, sink_blocks: int, recent_blocks: int) -> AlphaBudget:
    """What alpha allows for a stream of ``tokens``; sealed recent blocks and the unsealed tail are pinned.

    Token-exact: floor(alpha · tokens) in rational arithmetic, because 0.29 · 100 is below 29 in floating point.
    Raises ValueError if the pinned tokens alone exceed it, with the smallest alpha that does not.
    """
    if tokens < 0 or not 0 < alpha <= 1:
        raise ValueError(f"alpha must lie in (0, 1] and tokens cannot be negative, not {alpha} and {tokens}")
    hot = int(Fraction(str(alpha)) * tokens)
    sealed, tail = divmod(tokens, BLOCK_TOKENS)
    pinned = min(sealed, sink_blocks + recent_blocks) * BLOCK_TOKENS + tail
    if pinned > hot:
        raise ValueError(
            f"alpha {alpha:g} allows {hot} hot tokens of {tokens}, sink, recent and tail need {pinned}: "
            f"raise alpha to {pinned / tokens:.3f}"
        )
    pool = min((hot - pinned) // BLOCK_TOKENS, sealed - min(sealed, sink_blocks + recent_blocks))
    return AlphaBudget(hot, pinned, pool)
