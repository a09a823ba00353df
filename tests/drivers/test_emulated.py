"""The emulated drive end to end: its native kernel returns the golden model's scores through either path."""

from __future__ import annotations

import numpy as np
import pytest
from streams import two_streams, write_all

import nearkv_drivers
from nearkv_drivers.device import Mode


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("bits", "d", "group"), [(4, 64, 3), (8, 128, 4), (4, 256, 16), (8, 32, 1)])
@pytest.mark.parametrize("ddr", ["256KiB", "64MiB"])
def test_scores_equal_the_golden_model(tmp_path, rng, ddr, bits, d, group, mode):
    streams = two_streams(rng, bits, d, group)
    t0 = rng.integers(-2000, 2000, group).astype(np.int32)
    with nearkv_drivers.open(f"emulated:{tmp_path}/kv.drive?ddr={ddr}") as device:
        write_all(device, streams)
        for _ in range(2):
            handles = [device.submit([stream.request(mode, 2048, t0)]) for stream in streams]
            for stream, handle in zip(streams, handles, strict=True):
                stream.check(handle.wait()[0], mode, 2048, t0)
        assert device.telemetry().bad_blocks == 2
    assert not list(tmp_path.iterdir())
