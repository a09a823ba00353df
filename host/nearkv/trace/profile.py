"""Profile a trace for 2-D window scaling: what every window costs and gives in every stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearkv.policy import Lookahead
from nearkv.tiers.window_scaling import WINDOWS, WindowProfile, checked_windows, window_blocks
from nearkv.trace.format import Trace
from nearkv.trace.replay import replay


def profile_windows(trace: Trace, windows: Sequence[int] = WINDOWS) -> WindowProfile:
    """Blocks and hits of each window under lookahead eviction, per stream of ``trace``."""
    ordered = checked_windows(windows)
    shape = (trace.info.layers, trace.info.streams)
    chosen = trace.chosen[trace.info.prompt_steps :].reshape(-1, shape[0] * shape[1], trace.info.selected_blocks)
    needed = len(chosen) * trace.info.selected_blocks
    blocks, hits = [], []
    for window in ordered:
        pool = window_blocks(chosen, window).reshape(shape)
        blocks.append(pool)
        hits.append(needed - replay(trace, Lookahead(window), pool, warm=True).misses_by_stream)
    return WindowProfile(trace.info.model, ordered, np.stack(blocks, axis=2), np.stack(hits, axis=2))
