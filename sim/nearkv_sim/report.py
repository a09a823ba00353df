"""Text of what ``nearkv sim`` prints: benches, outcomes, coverage, throughput."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nearkv_sim.coverage import LEFT, code_coverage
from nearkv_sim.runner import Outcome, list_benches
from nearkv_sim.toolchain import BUILD


def bench_lines() -> list[str]:
    """One line a bench."""
    return [f"{bench.name:<14} {bench.about}" for bench in list_benches()]


def outcome_lines(outcome: Outcome) -> list[str]:
    """Result of one bench, and how to repeat it when it failed."""
    state = "passed" if outcome.passed else f"{len(outcome.failures)} FAILED"
    lines = [f"{outcome.bench:<14} {outcome.tests} tests, {state} (seed {outcome.seed})"]
    lines += [f"  {name}: {message.splitlines()[0]}" for name, message in outcome.failures.items()]
    if not outcome.passed:
        lines.append(f"  reproduce: {outcome.reproduce}")
    if outcome.waves:
        lines.append(f"  waves: {outcome.waves}")
    return lines


def coverage_lines(folder: Path = BUILD / "coverage") -> list[str]:
    """Functional bins and code coverage of everything that was run with coverage."""
    lines = []
    for path in sorted(folder.glob("*.functional.json")):
        bins: dict[str, int] = json.loads(path.read_text())
        hit = sum(count > 0 for count in bins.values())
        lines.append(f"functional, {path.name.split('.')[0]}: {hit} of {len(bins)} bins")
        lines += [f"  missing: {name}" for name, count in bins.items() if not count]
    data = sorted(folder.glob("*.dat"))
    for kind in code_coverage(data) if data else []:
        lines.append(f"{kind.kind}: {100 * kind.share:.1f} %")
        for module, (hit, there) in sorted(kind.modules.items(), key=lambda item: item[1][0] / item[1][1]):
            if hit < there:
                left = f": {LEFT[module]}" if module in LEFT else ""
                lines.append(f"  {module:<20} {100 * hit / there:5.1f} % of {there}{left}")
    return lines


def throughput_lines(rows: Iterable[dict[str, Any]]) -> list[str]:
    """A table of throughput rows; all figures are simulated cycles."""
    lines = ["bits    D  G  mode     k  latency    beats   cycles  beats/cycle  end to end"]
    for row in rows:
        latency = "stalls" if row["latency"] < 0 else str(row["latency"])
        lines.append(
            f"{row['bits']:>4} {row['D']:>4} {row['G']:>2}  {row['mode']:<4} {row['k']:>5}  {latency:>7} "
            f"{row['beats']:>8} {row['cycles']:>8} {row['beats_per_cycle']:>12.4f} {row['end_to_end']:>11.4f}"
        )
    return lines
