"""nvme-cli runs for real against two emulated NVMe drives, driven by the wrapper; a store file goes through one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nearkv.contract import block_crc, score, top_k
from nearkv_drivers.nvme import NvmeCli, NvmeError, NvmeNotFoundError, NvmePermissionError, page, parse
from nearkv_drivers.wire import Query, Segment

from . import python_disk
from .conftest import DRIVE_BYTES, SERIALS, TOP_K
from .guest import Guest

pytestmark = pytest.mark.timeout(300)
Cli = Callable[[str], NvmeCli]


@pytest.fixture(scope="module")
def cli(guest: Guest) -> Cli:
    """The wrapper over one release's nvme-cli in the guest."""
    return lambda suite: NvmeCli(guest.run, f"/opt/{suite}/nvme")


@pytest.fixture(params=["native", "bullseye", "trixie", "sid"])
def nvme(request: pytest.FixtureRequest, suites: list[str], cli: Cli) -> NvmeCli:
    """The wrapper over each release's nvme-cli."""
    if request.param not in suites:
        pytest.skip(f"nvme-cli of {request.param} is missing; get it with: tests/qemu/fetch.py {request.param}")
    return cli(request.param)


def test_lists_both_drives(nvme: NvmeCli) -> None:
    first, second = nvme.list_namespaces()
    assert (first.path, second.path) == ("/dev/nvme0n1", "/dev/nvme1n1")
    assert (first.serial, second.serial) == SERIALS
    assert first.controller == "/dev/nvme0"
    assert first.size_bytes == DRIVE_BYTES
    assert (first.nsid, first.model) == (1, "QEMU NVMe Ctrl")


@pytest.mark.parametrize("device", ["/dev/nvme0", "/dev/nvme1n1"])
def test_identifies_controllers(nvme: NvmeCli, guest: Guest, device: str) -> None:
    controller = nvme.controller(device)
    assert controller.serial == SERIALS[device.startswith("/dev/nvme1")]
    assert controller.version == "1.4.0"
    assert controller.warning_celsius == 70
    assert controller.can_format
    raw = guest.run(["/opt/native/nvme", "id-ctrl", device, "-o", "binary"]).stdout
    assert controller == parse.controller(page.controller_fields(raw))


def test_identifies_namespaces(nvme: NvmeCli) -> None:
    namespace = nvme.namespace("/dev/nvme0n1")
    assert namespace.size_bytes == DRIVE_BYTES
    assert namespace.sector_bytes == 512
    assert {one.data_bytes for one in namespace.formats} == {512, 4096}
    assert nvme.lba_format("/dev/nvme0n1", 4096).metadata_bytes == 0


def test_smart_log_agrees_with_the_raw_page(nvme: NvmeCli, guest: Guest) -> None:
    smart = nvme.smart_log("/dev/nvme0")
    assert smart.temperature_celsius == 50
    assert smart.warnings == ()
    raw = guest.run(["/opt/native/nvme", "smart-log", "/dev/nvme0", "-o", "binary"]).stdout
    assert smart == parse.smart_log(page.smart_fields(raw))
    health = nvme.health("/dev/nvme0")
    assert health.throttle_margin_celsius == 20
    assert health.complaints == ()


@pytest.mark.parametrize("device", ["/dev/nvme0", "/dev/nvme1"])
def test_error_and_firmware_logs(nvme: NvmeCli, device: str) -> None:
    assert nvme.error_log(device) == []
    firmware = nvme.firmware_log(device)
    assert (firmware.active_slot, firmware.next_slot, firmware.revisions) == (1, None, {1: "1.0"})


def test_a_missing_drive_is_named(nvme: NvmeCli) -> None:
    with pytest.raises(NvmeNotFoundError, match=r"/dev/nvme7.*nvme list"):
        nvme.smart_log("/dev/nvme7")


def test_without_root_the_remedy_is_named(nvme: NvmeCli, guest: Guest) -> None:
    unprivileged = NvmeCli(lambda command: guest.run(["su", "nobody", "-c", " ".join(command)]), nvme.executable)
    with pytest.raises(NvmePermissionError, match=r"/dev/nvme0 .*need root"):
        unprivileged.smart_log("/dev/nvme0")
    with pytest.raises(NvmePermissionError, match="nvme0, nvme1 may not be opened"):
        unprivileged.list_namespaces()


def test_a_missing_tool_is_named(guest: Guest) -> None:
    with pytest.raises(NvmeNotFoundError, match="apt install nvme-cli"):
        NvmeCli(guest.run, "/opt/none/nvme").list_namespaces()


def test_smartctl_sees_the_same_drive(guest: Guest, cli: Cli) -> None:
    report = guest.run(["/opt/native/smartctl", "-i", "-A", "/dev/nvme0"]).stdout.decode()
    controller = cli("native").controller("/dev/nvme0")
    assert controller.serial in report
    assert f"Temperature:                        {cli('native').smart_log('/dev/nvme0').temperature_celsius} " in report


def test_a_store_file_survives_on_a_file_system(
    guest: Guest, cli: Cli, store: bytes, segment: Segment, images: list[Path]
) -> None:
    before = cli("native").smart_log("/dev/nvme0")
    done = guest.shell("mke2fs -b 4096 /dev/nvme0n1 && mount -t ext2 /dev/nvme0n1 /mnt && cp /store /mnt/store && sync")
    assert done.returncode == 0, done.stderr
    with pytest.raises(NvmeError, match="mounted on /mnt"):
        cli("native").format("/dev/nvme0n1", 4096, confirm="/dev/nvme0n1")
    # Unmounting and dropping the caches makes the second reading come from the drive.
    again = (
        "umount /mnt && echo 3 > /proc/sys/vm/drop_caches && mount -t ext2 -o ro /dev/nvme0n1 /mnt && cat /mnt/store"
    )
    read = guest.shell(again)
    assert read.returncode == 0, read.stderr
    assert read.stdout == store
    blocks = np.frombuffer(read.stdout, np.uint8)[: segment.blocks.size].reshape(segment.blocks.shape)
    for block in blocks[::37]:
        assert block_crc(block) == int.from_bytes(block[60:64].tobytes(), "little")
    assert guest.shell("umount /mnt").returncode == 0
    assert images[0].read_bytes().find(store[:4096]) > 0
    after = cli("native").smart_log("/dev/nvme0")
    assert after.bytes_written - before.bytes_written >= len(store) // 512_000 * 512_000
    assert after.bytes_read > before.bytes_read
    assert after.write_commands > before.write_commands


def test_nearkvs_own_drive_file_works_on_the_drive(
    guest: Guest, cli: Cli, segment: Segment, query: Query, images: list[Path]
) -> None:
    before = cli("native").smart_log("/dev/nvme0")
    prepared = guest.shell(
        "mkdir -p /python && mount -t ext2 -o ro /dev/vda /python && mount --bind /dev /python/dev"
        " && mount --bind /proc /python/proc && mke2fs -b 4096 /dev/nvme0n1"
        " && mount -t ext2 /dev/nvme0n1 /python/mnt && cp /request.npz /guest_store.py /python/mnt"
    )
    assert prepared.returncode == 0, prepared.stderr
    done = guest.shell(
        "export PYTHONPATH=/site PYTHONDONTWRITEBYTECODE=1; exec chroot /python "
        f"{python_disk.interpreter()} /mnt/guest_store.py /mnt/kv.drive /mnt/request.npz"
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["direct_io"]
    assert answer["same"]
    assert answer["bad"] == []
    expected = score(query, segment)
    positions, priorities = top_k(expected, TOP_K)
    assert answer["total"] == expected.total.tolist()
    assert answer["positions"] == positions.tolist()
    assert answer["priorities"] == priorities.tolist()
    assert answer["drive_to_device"] >= segment.blocks.size
    assert guest.shell("umount /python/mnt").returncode == 0
    assert images[0].read_bytes().find(segment.blocks[0].tobytes()) > 0
    after = cli("native").smart_log("/dev/nvme0")
    assert after.bytes_written - before.bytes_written >= segment.blocks.size // 512_000 * 512_000


def test_format_asks_for_confirmation_and_changes_the_sector_size(
    guest: Guest, nvme: NvmeCli, store: bytes, images: list[Path]
) -> None:
    assert guest.shell("dd if=/store of=/dev/nvme1n1 bs=4096 conv=fsync").returncode == 0
    assert images[1].read_bytes()[: len(store)] == store
    current = nvme.namespace("/dev/nvme1n1").sector_bytes
    other = {512: 4096, 4096: 512}[current]
    with pytest.raises(NvmeError, match="destroys all data on /dev/nvme1n1"):
        nvme.format("/dev/nvme1n1", other, confirm="/dev/nvme0n1")
    with pytest.raises(NvmeError, match=r"no sectors of 1024 bytes; choose from \[512, 4096\]"):
        nvme.format("/dev/nvme1n1", 1024, confirm="/dev/nvme1n1")
    assert nvme.namespace("/dev/nvme1n1").sector_bytes == current
    nvme.format("/dev/nvme1n1", other, confirm="/dev/nvme1n1")
    assert nvme.namespace("/dev/nvme1n1").sector_bytes == other
    assert not any(images[1].read_bytes()[: len(store)])
    assert nvme.list_namespaces()[1].sector_bytes == other
