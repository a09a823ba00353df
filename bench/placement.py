"""Placement policies, warm-up, window scaling and SSD layout on recorded traces; prints and writes one JSON.

usage: python bench/placement.py OUT.json TRACE TRACE... (from `nearkv trace record`; each trace is judged with windows
that were profiled on the next trace of the same model, and on all others of it together)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from nearkv.cache.config import TierConfig
from nearkv.files import write_json
from nearkv.policy import Lookahead
from nearkv.tiers.layout import NEIGHBOURS, ReadCost, co_selection, pack_together, read_cost
from nearkv.tiers.window_scaling import WindowProfile, plan, together, uniform
from nearkv.trace import Trace, load, replay, replay_all
from nearkv.trace.profile import profile_windows
from nearkv.trace.replay import capacity, prompt_blocks, warm_shares
from nearkv.trace.report import as_json

FRACTIONS = (0.1, 0.15, 0.2, 0.25)
REDIVIDE = TierConfig().redivide


def policies(trace: Trace) -> dict[str, Any]:
    """Per DRAM fraction and start: every policy's results. ``cold`` starts from the newest blocks; ``warm`` from what
    the prompt's last queries attended to, ``warm_equal`` without dividing the pool by them, ``warm_followed`` dividing
    it anew as decoding goes."""
    found = {}
    for fraction in (fraction for fraction in FRACTIONS if int(prompt_blocks(trace) * fraction) > trace.always):
        pool = capacity(trace, fraction)
        starts = {"cold": pool, "warm_equal": pool, "warm": warm_shares(trace, pool)}
        results = {start: replay_all(trace, blocks, warm=start != "cold") for start, blocks in starts.items()}
        results["warm_followed"] = replay_all(trace, starts["warm"], warm=True, redivide=REDIVIDE)
        found[f"{fraction:g}"] = {start: as_json(replays, trace) for start, replays in results.items()}
    return found


def windows(profile: WindowProfile, judged: Trace, fraction: float) -> dict[str, Any]:
    """Bytes from the drive on ``judged``: equal shares, one window for all, and windows chosen by ``profile``; the
    latter also together with what the judged prompt says (``scaled_warm``). All start warm."""
    share = capacity(judged, fraction)
    total = share * judged.info.layers * judged.info.streams
    pools: dict[str, Any] = {
        "equal_shares": share,
        "scaled": plan(profile, total).blocks,
        "scaled_greedy": plan(profile, total, exact=False).blocks,
    }
    pools["scaled_warm"] = warm_shares(judged, pools["scaled"])
    if profile.blocks[:, :, 0].sum() <= total:
        pools["one_window"] = uniform(profile, total).blocks
    runs = {name: replay(judged, Lookahead(), pool, warm=True) for name, pool in pools.items()}
    return {name: {"bytes": run.bytes_from_drive, "pool_blocks": run.pool_blocks} for name, run in runs.items()}


def layout(trace: Trace) -> dict[str, Any]:
    """Reads per step and bytes read per byte used, in order of position and packed by the prompt's last queries."""
    info, learn, blocks = trace.info, trace.info.prompt_steps, int(trace.ranked.max()) + 1
    result: dict[str, Any] = {}
    for bridge in (0, 1, 2):
        costs: dict[str, list[ReadCost]] = {"position": [], "packed": []}
        for layer in range(info.layers):
            for stream in range(info.streams):
                chosen = trace.chosen[:, layer, stream]
                packed = pack_together(co_selection(chosen[:learn], blocks), NEIGHBOURS * learn)
                costs["position"].append(read_cost(chosen[learn:], np.arange(blocks), bridge))
                costs["packed"].append(read_cost(chosen[learn:], packed, bridge))
        result[f"bridge {bridge}"] = {
            name: {
                "reads_per_step": float(np.mean([cost.reads_per_step for cost in found])),
                "bytes_read_per_byte_used": sum(cost.read for cost in found) / sum(cost.used for cost in found),
            }
            for name, found in costs.items()
        }
    return result


def main(output: str, *paths: str) -> None:
    """Measure all of ``paths`` and write ``output``."""
    traces = {Path(path).name: load(path) for path in paths}
    result: dict[str, Any] = {"policies": {}, "layout": {}, "windows": {}}
    profiles = {name: profile_windows([trace]) for name, trace in traces.items()}
    for place, (name, trace) in enumerate(traces.items()):
        print(name, file=sys.stderr, flush=True)
        result["policies"][name] = policies(trace)
        result["layout"][name] = layout(trace)
        around = list(traces)[place + 1 :] + list(traces)[:place]
        others = [other for other in around if traces[other].info.model == trace.info.model]
        for learnt in [others[:1]] * bool(others) + [others] * (len(others) > 1):
            profile = together([profiles[other] for other in learnt])
            for fraction in FRACTIONS[1:]:
                result["windows"][f"{'+'.join(learnt)} -> {name} at {fraction:g}"] = windows(profile, trace, fraction)
    write_json(output, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    if len(sys.argv) < 3 or Path(sys.argv[1]).suffix != ".json":  # a forgotten OUT.json would overwrite a trace
        sys.exit(__doc__)
    main(*sys.argv[1:])
