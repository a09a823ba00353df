"""Cycles of the simulated kernel on long streams, where they are worst: narrow INT4 rows, eight heads."""

from __future__ import annotations

import pytest

pytest.importorskip("cocotb", reason="building the harness needs nearkv[sim]")
from nearkv_drivers.device import Mode
from nearkv_sim.throughput import measure
from nearkv_sim.toolchain import build_harness


@pytest.mark.timeout(1800)  # builds the C++ harness first
@pytest.mark.parametrize("latency", [0, 256])
@pytest.mark.parametrize(("mode", "k", "least"), [(Mode.MASS, 0, 0.97), (Mode.TOPK, 64, 0.93), (Mode.TOPK, 2048, 0.93)])
def test_the_stream_has_no_gaps_and_little_beside_it(mode: Mode, k: int, least: float, latency: int) -> None:
    row = measure(build_harness(), 4, 64, 8, mode, k, latency)
    assert row.beats_per_cycle >= 0.99
    assert row.end_to_end >= least
