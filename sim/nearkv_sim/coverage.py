"""Functional coverage of the kernel's requests, and Verilator's line and toggle coverage."""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from nearkv_drivers.device import Mode
from nearkv_drivers.wire import ROW_WIDTHS
from nearkv_sim.stimulus import Shape

GROUPS = {"1": range(1, 2), "2..7": range(2, 8), "8": range(8, 9), "9..15": range(9, 16), "16": range(16, 17)}
BLOCKS = {"1": range(1, 2), "2..3": range(2, 4), "4 and more": range(4, 1 << 20)}
STALL_SHARES = {"none": 0.0, "some": 0.2, "heavy": 0.6}
"""Classes of stalls, and the share of its cycles for which every channel is held back."""
LATENCIES = {"0": range(1), "1..63": range(1, 64), "64..255": range(64, 256), "256..500": range(256, 501)}


def classify(value: int, classes: dict[str, range]) -> str:
    """Name of the class that holds ``value``."""
    return next(name for name, values in classes.items() if value in values)


@dataclass
class FunctionalCoverage:
    """Declared bins and how often each was hit.

    ``format``: bits x D x group class x mode. ``size``: bits x D x blocks class x mode. ``traffic``: stalls x latency
    class x mode. ``event``: single things that must have happened.
    """

    events: tuple[str, ...] = ()
    hits: Counter[str] = field(default_factory=Counter)

    def declared(self) -> list[str]:
        """Every bin."""
        modes = [mode.name for mode in Mode]
        axes = {
            "format": product((4, 8), ROW_WIDTHS, GROUPS, modes),
            "size": product((4, 8), ROW_WIDTHS, BLOCKS, modes),
            "traffic": product(STALL_SHARES, LATENCIES, modes),
        }
        bins = [f"{axis}: {' '.join(map(str, point))}" for axis, points in axes.items() for point in points]
        return bins + [f"event: {event}" for event in self.events]

    def request(self, shape: Shape, stalls: str, latency: int) -> None:
        """Count one request that came back right."""
        mode, kind = shape.mode.name, f"{shape.bits} {shape.width}"
        self.hits[f"format: {kind} {classify(shape.group, GROUPS)} {mode}"] += 1
        self.hits[f"size: {kind} {classify(shape.blocks, BLOCKS)} {mode}"] += 1
        self.hits[f"traffic: {stalls} {classify(latency, LATENCIES)} {mode}"] += 1

    def event(self, name: str) -> None:
        """Count something that happened; ValueError if it was not declared."""
        if name not in self.events:
            raise ValueError(f"undeclared coverage event {name!r}")
        self.hits[f"event: {name}"] += 1

    def missing(self) -> list[str]:
        """Declared bins without a hit."""
        return [name for name in self.declared() if not self.hits[name]]

    def save(self) -> None:
        """Write the bins where the runner asked for them."""
        path = os.environ.get("NEARKV_SIM_FUNCTIONAL")
        if path:
            Path(path).write_text(json.dumps({name: self.hits[name] for name in self.declared()}, indent=1))


_LONG = "upper bits of positions and counts: covered runs send hundreds of blocks, the bench `kernel` a whole store"
_ALIGNED = "the six lowest address bits, always zero, and upper bits of lengths"

LEFT = {
    "nkv_crc32c": "functions that make constant tables run at elaboration",
    "nkv_merge_stage": f"the branches of a stalled output, which deeper stages take; {_LONG}",
    "nkv_scale": "branches that return, which Verilator does not count (the bench compares saturated results)",
    "nkv_axi_reader": _ALIGNED,
    "nkv_axi_writer": _ALIGNED,
    **dict.fromkeys(
        ("nkv_run", "nkv_kernel", "nearkv_kernel", "nkv_fetch", "nkv_request", "nkv_core", "nkv_check", "nkv_masses",
         "nkv_control", "nkv_sequencer"),
        "upper bits of counters, numbers of requests, blocks and addresses; constant signals of AXI",
    ),
    "nkv_results": f"{_ALIGNED}; numbers of bad blocks above those sent",
    **dict.fromkeys(
        ("nkv_bad_map", "nkv_select", "nkv_keep_best", "nkv_pack_pairs", "nkv_merge_sorter", "nkv_merge_tuples",
         "nkv_sort_tuple"),
        _LONG,
    ),
}  # fmt: skip
"""What covered runs leave in a module, where that is more than the goals allow."""


@dataclass(frozen=True)
class CodeCoverage:
    """Points hit and points there are, per module, of one kind (line or toggle)."""

    kind: str
    modules: dict[str, tuple[int, int]]
    missed: dict[str, list[str]]

    @property
    def share(self) -> float:
        """Share of the points that were hit."""
        hit, there = (sum(counts) for counts in zip(*self.modules.values(), strict=True))
        return hit / there if there else 0.0


POINT = re.compile(r"^C '(.*)' (\d+)$")


def read_points(paths: Iterable[Path]) -> dict[tuple[str, str, str], int]:
    """Hits of every coverage point (kind, module, place), summed over instances and files.

    Verilator writes one line a point: fields separated by \\x01, name and value by \\x02, then the count.
    """
    points: dict[tuple[str, str, str], int] = defaultdict(int)
    for path in paths:
        for line in path.read_text(errors="replace").splitlines():
            match = POINT.match(line)
            if not match:
                continue
            fields = dict(part.split("\x02", 1) for part in match[1].split("\x01") if "\x02" in part)
            kind = fields.get("page", "").split("/")[0].removeprefix("v_")
            module = Path(fields.get("f", "")).stem
            place = f"{fields.get('l', '')}:{fields.get('n', '')} {fields.get('o', '')}"
            points[kind, module, place] += int(match[2])
    return points


def code_coverage(paths: Iterable[Path]) -> list[CodeCoverage]:
    """Line and toggle coverage of the RTL over all ``coverage.dat`` files given."""
    points = read_points(paths)
    result = []
    for kind in ("line", "toggle"):
        modules: dict[str, tuple[int, int]] = {}
        missed: dict[str, list[str]] = defaultdict(list)
        for (point_kind, module, place), hits in points.items():
            if (point_kind == kind or (kind == "line" and point_kind == "branch")) and module != "nkv_modules":
                hit, there = modules.get(module, (0, 0))
                modules[module] = (hit + (hits > 0), there + 1)
                if not hits:
                    missed[module].append(place)
        result.append(CodeCoverage(kind, modules, dict(missed)))
    return result
