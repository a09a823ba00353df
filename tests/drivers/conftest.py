from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode: make golden_kernel importable

from golden_kernel import GoldenKernel, reduce_golden

from nearkv_drivers.device import Capabilities
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.memory import aligned_buffer
from nearkv_drivers.staged import StagedDevice


@pytest.fixture
def make_device(tmp_path):
    """Devices of a given DRAM size around the golden kernel; closed after the test."""
    devices = []

    def make(ddr: int, *, base: int = 0, gate=None, engine=None) -> StagedDevice:
        memory = aligned_buffer(ddr)
        memory[:] = 0xA5  # what is not staged must not look like score blocks
        drive = DriveFile(tmp_path / f"drive{len(devices)}", engine=engine)
        kernel = GoldenKernel(memory, base, gate)
        device = StagedDevice("test:", Capabilities("test"), drive, memory, kernel, reduce_golden, base=base)
        device.kernel = kernel
        devices.append(device)
        return device

    yield make
    for device in devices:
        device.close()


@pytest.fixture
def rng():
    return np.random.default_rng(7)
