"""Random requests, many in one start, against the golden model."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hls.csim import run
from hls.random_jobs import answer, random_job

from nearkv_sim.stimulus import compare

BATCHES, BATCH = 20, 100


@pytest.mark.parametrize("seed", range(BATCHES))
def test_batch(kernel: ctypes.CDLL, seed: int) -> None:
    random = np.random.default_rng(seed)
    jobs = [random_job(random) for _ in range(BATCH)]
    for job, result in zip(jobs, run(kernel, jobs), strict=True):
        compare(answer(job), result)


def test_many_blocks(kernel: ctypes.CDLL) -> None:
    """More blocks than one bitmap beat (512) and one heap hold."""
    random = np.random.default_rng(99)
    for _ in range(2):
        job = random_job(random, largest=6000)
        compare(answer(job), run(kernel, [job])[0])
