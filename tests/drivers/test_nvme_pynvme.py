"""The pynvme back end against a stand-in with pynvme's documented interface, and every way in which it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from nearkv_drivers.nvme import NvmeError, NvmeNotFoundError, PynvmeDrive

ADDRESS = "0000:01:00.0"


class Buffer:
    """DMA memory: sliced into bytes, zero at first."""

    def __init__(self, size: int):
        self.data = bytearray(size)

    def __getitem__(self, part: slice) -> bytes:
        return bytes(self.data[part])


class Controller:
    """A drive that answers identify and log pages asynchronously: data arrives with waitdone() only."""

    def __init__(self, address: object):
        self.address = address

    def identify(self, buffer: Buffer, nsid: int, cns: int) -> SimpleNamespace:
        assert (nsid, cns) == (0, 1)
        page = bytearray(4096)
        page[4:24] = b"S123".ljust(20)
        page[24:64] = b"SmartSSD".ljust(40)
        page[80:84] = (0x10300).to_bytes(4, "little")
        page[262] = 1
        page[266:268] = (343).to_bytes(2, "little")
        return self._answer(buffer, bytes(page))

    def getlogpage(self, identifier: int, buffer: Buffer, size: int) -> SimpleNamespace:
        assert size == len(buffer.data)
        page = bytearray(size)
        if identifier == 2:
            page[1:3] = (315).to_bytes(2, "little")
            page[48:64] = (3 << 70).to_bytes(16, "little")
        else:
            page[0:8] = (5).to_bytes(8, "little")
            page[12:14] = (0x4005).to_bytes(2, "little")
        return self._answer(buffer, bytes(page))

    @staticmethod
    def _answer(buffer: Buffer, page: bytes) -> SimpleNamespace:
        return SimpleNamespace(waitdone=lambda: buffer.data.__setitem__(slice(None), page))


def pcie(address: str) -> str:
    return f"pcie {address}"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A machine with one drive that no kernel driver holds."""
    (tmp_path / "bus/pci/devices" / ADDRESS).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def pynvme(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("nvme")
    module.__dict__.update(Buffer=Buffer, Controller=Controller)
    monkeypatch.setitem(sys.modules, "nvme", module)
    return module


@pytest.mark.parametrize("version", [1, 2])
def test_reads_the_pages(pynvme: ModuleType, sysfs: Path, version: int) -> None:
    if version == 2:
        pynvme.__dict__["Pcie"] = pcie
    drive = PynvmeDrive(ADDRESS, confirm=ADDRESS, sysfs=sysfs)
    assert drive._drive.address == (f"pcie {ADDRESS}" if version == 2 else ADDRESS.encode())
    assert (drive.controller().model, drive.controller().version) == ("SmartSSD", "1.3.0")
    assert drive.smart_log().temperature_celsius == 42
    assert drive.smart_log().bytes_written == (3 << 70) * 512_000
    assert [(entry.error_count, entry.status) for entry in drive.error_log()] == [(5, 0x2002)]
    assert drive.health().throttle_margin_celsius == 28


def test_wants_the_address_again(pynvme: ModuleType, sysfs: Path) -> None:
    with pytest.raises(NvmeError, match=f"takes the drive at {ADDRESS} from the kernel"):
        PynvmeDrive(ADDRESS, confirm="yes", sysfs=sysfs)


def test_refuses_a_drive_that_the_kernel_holds(pynvme: ModuleType, sysfs: Path) -> None:
    node = sysfs / "bus/pci/devices" / ADDRESS
    (sysfs / "bus/pci/drivers/nvme").mkdir(parents=True)
    (node / "driver").symlink_to(sysfs / "bus/pci/drivers/nvme")
    (node / "nvme/nvme3").mkdir(parents=True)
    with pytest.raises(NvmeError, match=r"kernel's nvme driver \(nvme3\): unmount"):
        PynvmeDrive(ADDRESS, confirm=ADDRESS, sysfs=sysfs)


def test_refuses_an_address_without_a_device(pynvme: ModuleType, sysfs: Path) -> None:
    with pytest.raises(NvmeNotFoundError, match=r"no PCI device 0000:02:00.0"):
        PynvmeDrive("02:00.0", confirm="02:00.0", sysfs=sysfs)


def test_says_that_it_is_optional_when_absent(monkeypatch: pytest.MonkeyPatch, sysfs: Path) -> None:
    monkeypatch.setitem(sys.modules, "nvme", None)
    with pytest.raises(NvmeNotFoundError, match=r"pynvme is not installed. It is optional"):
        PynvmeDrive(ADDRESS, confirm=ADDRESS, sysfs=sysfs)


def test_another_package_of_the_same_name_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch, sysfs: Path) -> None:
    monkeypatch.setitem(sys.modules, "nvme", ModuleType("nvme"))
    with pytest.raises(NvmeNotFoundError, match="is not pynvme's"):
        PynvmeDrive(ADDRESS, confirm=ADDRESS, sysfs=sysfs)
