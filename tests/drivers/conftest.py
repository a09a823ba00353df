from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode: make golden_kernel importable

from golden_kernel import GoldenKernel, reduce_golden

from nearkv_drivers.device import Capabilities, DeviceError
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.frames import FrameTable
from nearkv_drivers.memory import aligned_buffer
from nearkv_drivers.rtl_build import library
from nearkv_drivers.staged import StagedDevice


def golden_device(path: Path, ddr: int, *, base: int = 0, gate=None, engine=None) -> StagedDevice:
    """A staged device of ``ddr`` bytes around the golden kernel, which is its ``kernel``."""
    frames = FrameTable(ddr)
    memory = aligned_buffer(ddr)
    memory[:] = 0xA5  # what is not staged must not look like score blocks
    kernel = GoldenKernel(memory, base, gate)
    drive = DriveFile(path, engine=engine)
    device = StagedDevice("test:", Capabilities("test"), drive, memory, kernel, reduce_golden, frames, base=base)
    device.kernel = kernel
    return device


@pytest.fixture
def make_device(tmp_path):
    """golden_device in the test's folder; closed after the test."""
    devices = []

    def make(ddr: int, **options) -> StagedDevice:
        devices.append(golden_device(tmp_path / f"drive{len(devices)}", ddr, **options))
        return devices[-1]

    yield make
    for device in devices:
        device.close()


@pytest.fixture(scope="session")
def make_device_at():
    return golden_device


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def stream(rng):
    """Two heads' worth of score blocks in three runs, with its answers."""
    from streams import Stream

    return Stream(rng, 2, 40, 4, 64, 3)


@pytest.fixture(scope="module")
def model():
    """A tiny one, which attends through nearkv."""
    from tiny_model import tiny_model

    return tiny_model()


@pytest.fixture(scope="session")
def rtl_library() -> Path:
    """The Verilated kernel, built at most once per version of the RTL."""
    try:
        return library()
    except DeviceError as error:
        if "is not installed" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.fixture
def xrt_card(rtl_library, monkeypatch):
    """A card behind the pyxrt stand-in, which is what ``import pyxrt`` finds."""
    from standins import pyxrt_standin
    from standins.xrt_card import XrtCard

    card = XrtCard(rtl_library)
    pyxrt_standin.bind(card)
    monkeypatch.setitem(sys.modules, "pyxrt", pyxrt_standin)
    yield card
    card.close()


@pytest.fixture
def card_url(tmp_path):
    """The URL of that card, with more options appended."""
    from standins.xrt_card import ADDRESS, write_xclbin

    def url(*options: str, **xclbin) -> str:
        image = write_xclbin(tmp_path / "nearkv.xclbin", **xclbin)
        return f"card:{ADDRESS}?" + "&".join([f"xclbin={image}", f"file={tmp_path}/store", *options])

    return url


@pytest.fixture
def pynq_board(rtl_library, monkeypatch):
    """A board behind the pynq stand-in, which is what ``import pynq`` finds; NumPy calls itself 1.26 there."""
    from standins import pynq_standin

    board = pynq_standin.Board(rtl_library)
    pynq_standin.bind(board)
    monkeypatch.setitem(sys.modules, "pynq", pynq_standin)
    monkeypatch.setattr("nearkv_drivers.boards.overlay.np.__version__", "1.26.4")
    yield board
    board.close()


@pytest.fixture
def pynq_url(tmp_path):
    """The URL of that board, with more options appended."""
    from standins.pynq_standin import write_bitstream

    def url(*options: str, ips: dict | None = None) -> str:
        bitstream = write_bitstream(tmp_path / "nearkv.bit", ips)
        return f"pynq:{bitstream}?" + "&".join([f"file={tmp_path}/store", *options])

    return url
