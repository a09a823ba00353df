"""Profile traces for 2-D window scaling: what every window costs and gives in every stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearkv.policy import Lookahead
from nearkv.tiers.window_scaling import WINDOWS, WindowProfile, checked_windows, together, window_blocks
from nearkv.trace.format import Trace, TraceError
from nearkv.trace.replay import replay


def profile_windows(traces: Sequence[Trace], windows: Sequence[float] = WINDOWS) -> WindowProfile:
    """Blocks and hits of each window under lookahead eviction, per stream, over all ``traces`` of one model.

    More than one text makes a plan that serves other texts better. Raises TraceError for traces that differ in model,
    streams or selection.
    """
    info = traces[0].info
    for other in (trace.info for trace in traces[1:]):
        for name in ("model", "layers", "streams", "selected_blocks"):
            if getattr(other, name) != getattr(info, name):
                raise TraceError(
                    f"traces of one profile must agree in {name}: {other.text} has {getattr(other, name)}, "
                    f"{info.text} {getattr(info, name)}"
                )
    return together([_profile(trace, checked_windows(windows)) for trace in traces])


def _profile(trace: Trace, windows: tuple[float, ...]) -> WindowProfile:
    shape = (trace.info.layers, trace.info.streams)
    chosen = trace.chosen[trace.info.prompt_steps :].reshape(-1, shape[0] * shape[1], trace.info.selected_blocks)
    needed = len(chosen) * trace.info.selected_blocks
    blocks = [window_blocks(chosen, window).reshape(shape) for window in windows]
    hits = [needed - replay(trace, Lookahead(), pool, warm=True).misses_by_stream for pool in blocks]
    return WindowProfile(trace.info.model, windows, np.stack(blocks, axis=2), np.stack(hits, axis=2))
