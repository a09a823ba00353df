"""The nvme wrapper on recorded outputs of four nvme-cli versions, and on what emulated drives never say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nearkv_drivers.fields import Fields, OutputError
from nearkv_drivers.nvme import (
    NvmeCli,
    NvmeError,
    NvmeNotFoundError,
    NvmePermissionError,
    parse,
)
from nearkv_drivers.nvme.model import controller_path, namespace_id
from nearkv_drivers.tools import Completed

CAPTURES = Path(__file__).parent / "nvme_captures"
VERSIONS = ("1.12", "2.3", "2.13", "2.16")


def captured(version: str) -> dict[str, dict[str, Any]]:
    return json.loads((CAPTURES / f"nvme-cli-{version}.json").read_text())


def replay(version: str, *, user: int = 0, entries: str = "", **renamed: str) -> NvmeCli:
    """A wrapper whose commands answer as recorded; ``renamed`` picks another entry for a command's usual one."""
    known = captured(version)
    by_command = {entry["command"]: entry for name, entry in known.items() if "-" not in name or name in PLAIN}
    by_command |= {known[usual.replace("_", "-")]["command"]: known[other] for usual, other in renamed.items()}

    def run(command: Sequence[str]) -> Completed:
        if command[0] == "ls":
            return Completed(0, entries.encode(), "")
        if command[0] == "id":
            return Completed(0, f"{user}\n".encode(), "")
        entry = by_command[" ".join(command)]
        return Completed(entry["returncode"], entry["stdout"].encode(), entry["stderr"])

    return NvmeCli(run)


PLAIN = ("list-verbose", "id-ctrl", "id-ns", "smart-log", "error-log", "fw-log", "missing-drive")


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_version(version: str) -> None:
    assert replay(version).version() == version


def test_flat_and_nested_lists_agree(version: str) -> None:
    flat = replay(version).list_namespaces()
    nested = parse.listing(captured(version)["list-verbose"]["stdout"])
    assert [one.path for one in flat] == ["/dev/nvme0n1", "/dev/nvme1n1"]
    assert [one.serial for one in flat] == ["NEARKV0001", "NEARKV0002"]
    assert [one.address for one in nested] == ["0000:00:02.0", "0000:00:03.0"]
    assert {one.transport for one in nested} == {"pcie"}
    for left, right in zip(flat, nested, strict=True):
        assert (left.path, left.nsid, left.serial, left.model, left.firmware, left.size_bytes, left.sector_bytes) == (
            right.path, right.nsid, right.serial, right.model, right.firmware, right.size_bytes, right.sector_bytes
        )  # fmt: skip


def test_identify_and_logs(version: str) -> None:
    nvme = replay(version)
    controller = nvme.controller("/dev/nvme0")
    assert (controller.model, controller.serial, controller.version) == ("QEMU NVMe Ctrl", "NEARKV0001", "1.4.0")
    assert (controller.warning_celsius, controller.critical_celsius) == (70, 100)
    assert controller.max_transfer_bytes == 512 << 10
    assert controller.capacity_bytes is None
    namespace = nvme.namespace("/dev/nvme0n1")
    assert namespace.size_bytes == 256 << 20
    assert [(one.data_bytes, one.metadata_bytes) for one in namespace.formats[3:5]] == [(512, 64), (4096, 0)]
    assert namespace.nguid is None
    smart = nvme.smart_log("/dev/nvme0")
    assert smart.temperature_celsius == 50
    assert smart.bytes_read == 512_000
    assert nvme.error_log("/dev/nvme0") == []
    assert nvme.firmware_log("/dev/nvme0").revisions == {1: "1.0"}


def test_no_drive_is_an_empty_list(version: str) -> None:
    assert replay(version, list="empty-list").list_namespaces() == []
    assert parse.listing(captured(version)["empty-list-verbose"]["stdout"]) == []
    assert parse.listing("") == []


def test_hidden_drives_are_no_empty_list(version: str) -> None:
    hidden = replay(version, user=1000, entries="nvme0\nnvme1\n", list="unprivileged-list")
    with pytest.raises(NvmePermissionError, match="nvme0, nvme1 may not be opened without root"):
        hidden.list_namespaces()


def test_permission_error_names_the_remedy(version: str) -> None:
    with pytest.raises(NvmePermissionError, match=r"/dev/nvme0 may not be opened.*need root: use sudo"):
        replay(version, smart_log="unprivileged-smart-log").smart_log("/dev/nvme0")


def test_missing_drive_is_named(version: str) -> None:
    with pytest.raises(NvmeNotFoundError, match="/dev/nvme7: No such file or directory; `nvme list` shows"):
        replay(version).smart_log("/dev/nvme7")


def test_missing_tool_is_named() -> None:
    def run(command: Sequence[str]) -> Completed:
        raise FileNotFoundError(command[0])

    with pytest.raises(NvmeNotFoundError, match="apt install nvme-cli"):
        NvmeCli(run).list_namespaces()


def smart(**changes: object) -> Fields:
    """A SMART log of a worn, busy drive, with the types of nvme-cli 2.3 (wide counters are strings)."""
    record = json.loads(captured("2.3")["smart-log"]["stdout"])
    return Fields(record | changes, "smart-log")


@pytest.mark.parametrize(
    ("printed", "count"),
    [
        (62786553, 62786553),
        ("62786553", 62786553),
        ("62,786,553", 62786553),
        (6.2786553e7, 62786553),
        ("340282366920938463463374607431768211455", (1 << 128) - 1),
        ("0x10", 16),
        ({"value": 3}, 3),
    ],
)
def test_counters_of_every_type(printed: object, count: int) -> None:
    assert parse.smart_log(smart(data_units_written=printed)).bytes_written == count * 512_000


def test_temperatures_are_celsius_and_zero_means_absent() -> None:
    log = parse.smart_log(
        smart(temperature=0, temperature_sensor_1=317, temperature_sensor_2=0, temperature_sensor_3=330)
    )
    assert log.temperature_celsius is None
    assert log.sensors_celsius == (44, None, 57)


@pytest.mark.parametrize("printed", [5, {"value": 5, "available_spare": 1, "reliability_degraded": 1}])
def test_critical_warning_in_words(printed: object) -> None:
    log = parse.smart_log(smart(critical_warning=printed))
    assert log.warnings == ("available spare is below its threshold", "reliability is degraded")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("many", "data_units_written is 'many'"),
        (-1, "data_units_written is -1"),
        (True, "is True"),
        (1 << 128, "is 3402"),
    ],
)
def test_senseless_values_are_named(value: object, message: str) -> None:
    with pytest.raises(OutputError, match=message):
        parse.smart_log(smart(data_units_written=value))


def test_missing_fields_are_named() -> None:
    record = json.loads(captured("2.3")["smart-log"]["stdout"])
    del record["percent_used"]
    with pytest.raises(OutputError, match="smart-log /dev/nvme0: percent_used is missing"):
        parse.smart_log(Fields(record, "smart-log /dev/nvme0"))


def test_health_complaints() -> None:
    nvme = replay("2.16")
    health = nvme.health("/dev/nvme0")
    assert health.complaints == ()
    worn = type(health)(health.controller, parse.smart_log(smart(temperature=345, percent_used=103, media_errors="2")))
    assert worn.throttle_margin_celsius == -2
    assert worn.complaints == (
        "72 °C: at or above the threshold where the drive throttles",
        "103 % of the rated endurance is used",
        "2 media errors",
    )


def test_error_status_without_the_phase_tag() -> None:
    # Up to 1.12 the raw word is printed, phase tag included; later versions shift it out and print the tag beside it.
    entry = {"error_count": 9, "sqid": 1, "cmdid": 7, "parm_error_location": 65535, "lba": 128, "nsid": 1}
    old = parse.error_log(Fields({"errors": [entry | {"status_field": 0x4005}]}, "error-log"))
    new = parse.error_log(Fields({"errors": [entry | {"status_field": 0x2002, "phase_tag": 1}]}, "error-log"))
    assert old == new
    assert old[0].status == 0x2002


def test_multipath_namespaces_hang_below_the_subsystem() -> None:
    controllers = [{"Controller": f"nvme{n}", "SerialNumber": "S1", "ModelNumber": "M", "Firmware": "F",
                    "Transport": "pcie", "Address": f"0000:0{n}:00.0", "Namespaces": []} for n in (2, 3)]  # fmt: skip
    namespace = {"NameSpace": "nvme2n1", "NSID": 4, "UsedBytes": 0, "MaximumLBA": 2048, "SectorSize": 4096}
    text = json.dumps({"Devices": [{"Subsystems": [{"Controllers": controllers, "Namespaces": [namespace]}]}]})
    (one,) = parse.listing(text)
    assert (one.path, one.nsid, one.serial, one.size_bytes, one.address) == (
        "/dev/nvme2n1", 4, "S1", 2048 * 4096, "0000:02:00.0"
    )  # fmt: skip


def test_more_than_sixteen_formats_use_the_upper_index_bits() -> None:
    formats = [{"ms": 0, "ds": 9, "rp": 2}] * 20 + [{"ms": 0, "ds": 12, "rp": 0}]
    record = {"nsze": 8, "ncap": 8, "nuse": 8, "flbas": 4 | 1 << 5, "lbafs": formats}
    assert parse.namespace(Fields(record, "id-ns")).sector_bytes == 4096
    with pytest.raises(OutputError, match="format 21 is in use, but lbafs lists 21"):
        parse.namespace(Fields(record | {"flbas": 5 | 1 << 5}, "id-ns"))


@pytest.mark.parametrize(
    "device", ["", "/dev/sda", "--force", "/dev/nvme", "/dev/nvme0n1; reboot", "$(reboot)/dev/nvme0n1", "nvme0n1\n"]
)
def test_other_devices_are_refused_before_anything_runs(device: str) -> None:
    def run(command: Sequence[str]) -> Completed:
        raise AssertionError(f"ran {command}")

    with pytest.raises(NvmeError, match="is no NVMe device"):
        NvmeCli(run).smart_log(device)


def test_device_names() -> None:
    assert controller_path("/dev/nvme12n3") == "/dev/nvme12"
    assert controller_path("/dev/nvme1c2n3p4") == "/dev/nvme1"
    assert (namespace_id("/dev/nvme12n3p1"), namespace_id("/dev/nvme4")) == (3, None)


class FormatDrive:
    """Answers the commands that a format needs; ``fna`` 1 says that a format covers every namespace."""

    def __init__(self, *, fna: int, mounts: str = "", holders: str = ""):
        self.formatted: list[str] = []
        self._fna, self._mounts, self._holders = fna, mounts, holders

    def __call__(self, command: Sequence[str]) -> Completed:
        if command[0] == "cat":
            return Completed(0, self._mounts.encode(), "")
        if command[0] == "sh":
            return Completed(0, self._holders.encode(), "")
        if command[1] == "format":
            self.formatted.append(" ".join(command))
            return Completed(0, b"Success formatting namespace:1\n", "")
        record = json.loads(captured("2.13")[command[1]]["stdout"])
        return Completed(0, json.dumps(record | {"fna": self._fna}).encode(), "")


def test_format_wants_the_name_of_what_is_lost() -> None:
    drive = FormatDrive(fna=0)
    with pytest.raises(NvmeError, match="destroys all data on /dev/nvme0n1: pass confirm='/dev/nvme0n1'"):
        NvmeCli(drive).format("/dev/nvme0n1", 4096, confirm="yes")
    with pytest.raises(NvmeError, match="/dev/nvme0 is a controller"):
        NvmeCli(drive).format("/dev/nvme0", 4096, confirm="/dev/nvme0")
    assert drive.formatted == []
    NvmeCli(drive).format("/dev/nvme0n1", 4096, confirm="/dev/nvme0n1")
    assert drive.formatted == ["nvme format /dev/nvme0n1 --lbaf=4 --force"]


def test_format_of_all_namespaces_wants_the_controllers_name() -> None:
    drive = FormatDrive(fna=1)
    with pytest.raises(NvmeError, match="every namespace of /dev/nvme0: pass confirm='/dev/nvme0'"):
        NvmeCli(drive).format("/dev/nvme0n1", 4096, confirm="/dev/nvme0n1")
    NvmeCli(drive).format("/dev/nvme0n1", 4096, confirm="/dev/nvme0")
    assert len(drive.formatted) == 1


@pytest.mark.parametrize(("source", "fna"), [("/dev/nvme0n1", 0), ("/dev/nvme0n1p2", 0), ("/dev/nvme0n2p1", 1)])
def test_format_refuses_mounted_drives(source: str, fna: int) -> None:
    drive = FormatDrive(fna=fna, mounts=f"/dev/nvme1n1 / ext4 rw 0 0\n{source} /srv ext4 rw 0 0\n")
    with pytest.raises(NvmeError, match=f"{source} is mounted on /srv: unmount it"):
        NvmeCli(drive).format("/dev/nvme0n1", 4096, confirm="/dev/nvme0" if fna else "/dev/nvme0n1")
    assert drive.formatted == []


def test_format_refuses_what_a_volume_holds() -> None:
    drive = FormatDrive(fna=0, holders="/sys/class/block/nvme0n1p3/holders/dm-2\n")
    with pytest.raises(NvmeError, match="nvme0n1p3 is used by dm-2: release it"):
        NvmeCli(drive).format("/dev/nvme0n1", 4096, confirm="/dev/nvme0n1")
    assert drive.formatted == []


def test_format_ignores_other_drives() -> None:
    drive = FormatDrive(
        fna=0,
        mounts="/dev/nvme0n12 / ext4 rw 0 0\n/dev/nvme01n1 /a ext4 rw 0 0\n",
        holders="/sys/class/block/nvme0n12/holders/dm-0\n",
    )
    NvmeCli(drive).format("/dev/nvme0n1", 4096, confirm="/dev/nvme0n1")
    assert len(drive.formatted) == 1
