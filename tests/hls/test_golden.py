"""Every golden vector through the HLS kernel, in both modes."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from hls.csim import run
from hls.memory_image import Job

from nearkv_drivers.device import Mode

from vectors import load_score, score_vectors


@pytest.mark.parametrize("path", score_vectors(), ids=lambda path: path.stem)
def test_vector(kernel: ctypes.CDLL, path: Path) -> None:
    v = load_score(path)
    runs = np.split(v.blocks, np.cumsum(v.run_blocks)[:-1])
    jobs = [Job(v.query, runs, v.bits, mode, v.k, v.initial_total) for mode in Mode]
    mass, top = run(kernel, jobs)
    np.testing.assert_array_equal(mass.log_mass, v.log_mass)
    np.testing.assert_array_equal(top.positions, v.positions)
    np.testing.assert_array_equal(top.priorities, v.priorities)
    for result in (mass, top):
        np.testing.assert_array_equal(result.total, v.total)
        np.testing.assert_array_equal(result.bad, v.bad)
