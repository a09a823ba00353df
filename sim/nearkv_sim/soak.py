"""Random requests through the Verilated kernel with the C++ memory, under random stalls and latencies: what
``nearkv sim soak`` runs. Results are compared with the golden model, and nothing but results may have changed.

A cycle takes a thousandth of what it takes under cocotb, so thousands of commands take seconds.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import Mode
from nearkv_sim.commands import CommandImage, build_commands, parse_completion, parse_result, result_beats
from nearkv_sim.coverage import LATENCIES, STALL_SHARES, FunctionalCoverage
from nearkv_sim.runner import BENCHES
from nearkv_sim.stimulus import Case, Rng, Shape, compare, random_case, random_shape
from nearkv_sim.toolchain import build_harness

CLASSES = tuple(product(STALL_SHARES, LATENCIES))
PATIENCE = 100_000
"""Cycles without a transfer after which a start counts as hung; selecting and sorting take a few thousand."""


@dataclass
class Soak:
    """What a soak did. ``failures`` holds, per failed start, its seed and what was wrong."""

    coverage: FunctionalCoverage = field(default_factory=FunctionalCoverage)
    sleep: bool = False
    starts: int = 0
    commands: int = 0
    cycles: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Figures, and one line with the command that repeats it for every failed start."""
        lines = [f"{self.commands} commands in {self.starts} starts, {self.cycles} cycles, {len(self.failures)} FAILED"]
        for seed, message in self.failures:
            again = f"nearkv sim soak --seed {seed} --starts 1{' --sleep' if self.sleep else ''}"
            lines += [f"  {message}", f"  reproduce: {again}"]
        missing = self.coverage.missing()
        declared = len(self.coverage.declared())
        return [*lines, f"functional: {declared - len(missing)} of {declared} bins"]


@dataclass(frozen=True)
class Image:
    """Memory of one start: keys, then commands, then results."""

    data: npt.NDArray[np.uint8]
    base: int
    commands: int
    results: int
    layout: CommandImage


def soak(seed: int, starts: int, *, sleep: bool = False, coverage: Path | None = None) -> Soak:
    """Run ``starts`` kernel starts, whose seeds count from ``seed``; each class of traffic takes its turn.

    ``sleep``: as the ``rtl:`` device simulates the kernel. ``coverage`` is a folder for Verilator's line and toggle
    coverage, a file a start.
    """
    covers = coverage is not None
    harness = build_harness(sleep=sleep, cover=covers, parameters=BENCHES["kernel"].parameters if covers else None)
    result = Soak(sleep=sleep)
    with tempfile.TemporaryDirectory() as folder:
        for one in range(seed, seed + starts):
            covered = None if coverage is None else coverage / f"soak-{one}.dat"
            try:
                _start(harness, one, Path(folder) / "memory", result, covered)
            except (AssertionError, ValueError, subprocess.CalledProcessError) as error:
                output = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
                result.failures.append((one, f"start {one}: {output or error}"))
    return result


def _start(harness: Path, seed: int, file: Path, result: Soak, covered: Path | None) -> None:
    """One start: requests of its seed, everything compared."""
    rng = np.random.default_rng(seed)
    stalls, latency = CLASSES[seed % len(CLASSES)]
    band = LATENCIES[latency]
    low, high = sorted(int(rng.integers(band.start, band.stop)) for _ in range(2))
    shapes = [random_shape(rng) for _ in range(int(rng.integers(4, 12)))]
    for i, mode in enumerate(Mode):  # both modes in every class
        shapes[i] = replace(shapes[i], mode=mode)
    cases, image = _build(rng, shapes)
    image.data.tofile(file)
    words = [
        file, image.base, len(cases), image.commands, 0, image.results, low, STALL_SHARES[stalls], seed, PATIENCE,
        high - low, *([covered] if covered else []),
    ]  # fmt: skip
    done = subprocess.run([str(harness), *map(str, words)], check=True, capture_output=True, text=True)
    counted = json.loads(done.stdout)
    after = np.fromfile(file, np.uint8)
    _check(cases, image, after)
    result.starts += 1
    result.commands += len(cases)
    result.cycles += counted["cycles"]
    for shape in shapes:
        result.coverage.request(shape, stalls, high)


def _build(rng: Rng, shapes: list[Shape]) -> tuple[list[Case], Image]:
    """Cases and their memory, at a random place; results are full of random bytes before the start."""
    base = int(rng.integers(1, 2**50)) * 4096
    place, used = placer(rng, base)
    cases = [random_case(rng, shape, place) for shape in shapes]
    layout = build_commands([case.request for case in cases])
    commands, results = place(layout.commands.nbytes), place(layout.result_bytes)
    data = rng.integers(0, 256, used() - base, dtype=np.uint8)
    for address, part in ((commands, layout.commands), *(pair for case in cases for pair in case.keys)):
        data[address - base : address - base + part.nbytes] = part
    return cases, Image(data, base, commands, results, layout)


def placer(rng: Rng, base: int) -> tuple[Callable[[int], int], Callable[[], int]]:
    """Gives addresses from ``base`` on: beat-aligned, at any place in a page; and where the used part ends."""
    end = base

    def place(size: int) -> int:
        nonlocal end
        address = end + 64 * int(rng.integers(64))
        end = address + -(-size // 64) * 64
        return address

    return place, lambda: end


def _check(cases: list[Case], image: Image, after: npt.NDArray[np.uint8]) -> None:
    """Compare every result, and that all other memory is as it was."""
    start = image.results - image.base
    record = parse_completion(after[start : start + 64].tobytes())
    expected = {"status": 0, "failed": len(cases), "completed": len(cases)}
    assert {name: record[name] for name in expected} == expected, f"completion record {record}"
    assert np.array_equal(after[:start], image.data[:start]), "the kernel wrote outside the results"
    for i, case in enumerate(cases):
        at = start + image.layout.result_offsets[i]
        try:
            compare(
                case.expected, parse_result(case.request, after[at : at + 64 * result_beats(case.request)].tobytes())
            )
        except (AssertionError, ValueError) as error:
            raise AssertionError(f"request {i} of {len(cases)} ({case.request.mode.name}): {error}") from error
