"""Card discovery: both tools' reports, what they mean, the drive beside a card, and what `nearkv device` shows."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from nearkv_drivers.cards import CardError, P2p, XrtTool, cli, drives_beside, find_tool, parse, xrt
from nearkv_drivers.cards.topology import drive_of
from nearkv_drivers.fields import OutputError
from nearkv_drivers.nvme import NvmeCli
from nearkv_drivers.tools import Completed

REPORTS = Path(__file__).parent / "card_reports"
TOOLS = {"xbutil": "2.12", "xrt-smi": "2.18"}


def report(name: str) -> Any:
    return json.loads((REPORTS / f"{name}.json").read_text())


def tool(name: str, *, host: str = "host", card: str = "card") -> XrtTool:
    """A tool that writes the transcribed report to the file it is told to, and nothing to the terminal."""

    def run(command: Sequence[str]) -> Completed:
        assert command[:2] == [f"/opt/xilinx/xrt/bin/{name}", "examine"]
        assert command[-4:-1] == ["-f", "JSON", "-o"]
        target = Path(command[-1])
        assert not target.exists()
        kind = card if "-d" in command else host
        target.write_text((REPORTS / f"{name}-{TOOLS[name]}-{kind}.json").read_text())
        return Completed(0, b"Successfully wrote the JSON file\n", "")

    return XrtTool(run, f"/opt/xilinx/xrt/bin/{name}")


@pytest.mark.parametrize("name", TOOLS)
def test_lists_cards_but_no_npu(name: str) -> None:
    first, *others = tool(name).list_cards()
    assert (first.address, first.shell) == ("0000:65:00.1", "xilinx_u2_gen3x4_xdma_gc_2_202110_1")
    assert first.ready
    assert first.is_smartssd
    assert [(one.address, one.ready) for one in others] == ([("0000:b3:00.1", False)] if name == "xbutil" else [])


def test_no_card_is_an_empty_list() -> None:
    assert tool("xbutil", host="none").list_cards() == []


@pytest.mark.parametrize("name", TOOLS)
def test_both_words_for_the_missing_reboot(name: str) -> None:
    card = tool(name).card("65:00.1")
    assert card.p2p is P2p.NEEDS_REBOOT
    assert card.p2p_text == {"xbutil": "reboot", "xrt-smi": "no iomem"}[name]
    assert "reboot warm" in (card.p2p.remedy(name, card.address) or "")


def test_a_healthy_card() -> None:
    card = tool("xrt-smi", card="card-p2p").card("0000:65:00.1")
    assert card.p2p is P2p.ENABLED
    assert card.p2p.remedy("xrt-smi", card.address) is None
    assert card.is_smartssd
    assert card.ddr_bytes == 4 << 30
    assert card.ddr_calibrated is True
    assert card.fpga_celsius == 58
    assert card.watts == pytest.approx(12.9)
    assert str(card.link) == "Gen3 x4"
    assert [(clock.description, clock.mhz) for clock in card.clocks] == [
        ("Data", 300),
        ("Kernel", 500),
        ("System", None),
    ]
    assert card.complaints == ()


def test_absent_sensors_are_absent_not_zero() -> None:
    card = tool("xbutil").card("0000:65:00.1")
    assert {one.location: one.celsius for one in card.temperatures if one.celsius is not None} == {"fpga0": 62}
    assert card.link.best_generation is None
    assert not card.link.degraded


@pytest.mark.parametrize("sensor", [{"temp_C": "41", "is_present": "false"}, {"temp_C": "0", "is_present": "true"}])
def test_a_sensor_is_absent_by_either_sign(sensor: dict[str, str]) -> None:
    altered = report("xbutil-2.12-card")
    altered["devices"][0]["thermals"] = [{"location_id": "fpga0", "description": "FPGA"} | sensor]
    assert parse.card(json.dumps(altered), "xbutil examine").fpga_celsius is None


def test_a_hot_card_in_a_narrow_slot() -> None:
    card = tool("xrt-smi").card("0000:65:00.1")
    assert card.watts is None
    assert card.complaints == (
        "FPGA at 95 °C: the shell slows the kernel clock",
        "PCIe link Gen2 x2 (could be Gen3 x4)",
    )


@pytest.mark.parametrize(
    ("status", "state"),
    [("enabled", P2p.ENABLED), ("Disabled", P2p.DISABLED), ("error", P2p.ERROR), ("not supported", P2p.NOT_SUPPORTED),
     ("", P2p.UNKNOWN), (None, P2p.UNKNOWN), ("warming up", P2p.UNKNOWN)],
)  # fmt: skip
def test_p2p_words(status: str | None, state: P2p) -> None:
    assert P2p.of(status) is state
    assert (state.remedy("xbutil", "0000:65:00.1") is None) == (state is P2p.ENABLED)


def test_missing_tools_are_named(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="neither xrt-smi nor xbutil is installed"):
        find_tool(lambda name: None, tmp_path)


def test_the_newer_tool_is_preferred(tmp_path: Path) -> None:
    (tmp_path / "xrt-smi").write_text("")
    assert find_tool(lambda name: f"/usr/bin/{name}" if name == "xbutil" else None, tmp_path) == str(
        tmp_path / "xrt-smi"
    )
    assert find_tool(lambda name: f"/usr/bin/{name}", tmp_path) == "/usr/bin/xrt-smi"


def test_a_failing_tool_is_quoted() -> None:
    def run(command: Sequence[str]) -> Completed:
        return Completed(1, b"\nERROR: Specified device BDF '0000:66:00.1' not found\n", "")

    with pytest.raises(CardError, match=r"-d 0000:66:00.1 .* wrote no report; it said: ERROR: Specified device"):
        XrtTool(run, "/usr/bin/xbutil").card("66:00.1")


def test_a_success_without_a_report_is_no_success() -> None:
    with pytest.raises(CardError, match="wrote no report; it said: done"):
        XrtTool(lambda command: Completed(0, b"done\n", ""), "/usr/bin/xbutil").list_cards()


def test_other_addresses_are_refused_before_anything_runs() -> None:
    def run(command: Sequence[str]) -> Completed:
        raise AssertionError(f"ran {command}")

    with pytest.raises(CardError, match=r"'all' is no PCI address.*nearkv device list"):
        XrtTool(run, "/usr/bin/xbutil").card("all")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda card: card.update(devices=[]), "devices lists 0 cards"),
        (lambda card: card["devices"][0].pop("device_id"), "device_id is missing"),
        (lambda card: card["devices"][0].update(device_id="first"), "'first' is no PCI address"),
        (lambda card: card["devices"][0]["thermals"][3].update(temp_C="hot"), r"thermals\[3\]: temp_C is 'hot'"),
        (lambda card: card["devices"][0].update(platforms={"a": 1}), "platforms is a dict, not a list"),
    ],
)
def test_senseless_reports_are_named(change: Any, message: str) -> None:
    altered = report("xbutil-2.12-card")
    change(altered)
    with pytest.raises(OutputError, match=message):
        parse.card(json.dumps(altered), "xbutil examine")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in inner for place in places(child, (*path, key)))]


@pytest.mark.parametrize("name", sorted(path.stem for path in REPORTS.glob("*.json")))
@given(data=st.data())
def test_altered_reports_are_read_or_refused_by_name(name: str, data: st.DataObject) -> None:
    altered = report(name)
    place = data.draw(st.sampled_from(places(altered)[1:]))
    parent = altered
    for key in place[:-1]:
        parent = parent[key]
    if data.draw(st.booleans()):
        del parent[place[-1]]
    else:
        parent[place[-1]] = data.draw(JSON)
    message = "xbutil examine"
    try:
        read = parse.card if "-card" in name else parse.cards
        read(json.dumps(altered), message)
    except OutputError as error:
        message = str(error)
    assert message.startswith("xbutil examine")


@given(text=st.text() | st.binary() | JSON.map(json.dumps))
def test_any_text_is_read_or_refused_by_name(text: str | bytes) -> None:
    for read in (parse.card, parse.cards):
        message = "xbutil examine"
        try:
            read(text, message)
        except OutputError as error:
            message = str(error)
        assert message.startswith("xbutil examine")


def machine(folder: Path, cards: dict[str, str], drives: dict[str, str]) -> Path:
    """A sysfs with devices at the given bridge paths (below pci0000:60) and NVMe controllers at theirs."""
    (folder / "bus/pci/devices").mkdir(parents=True)
    (folder / "class/nvme").mkdir(parents=True)
    for address, path in cards.items():
        node = folder / "devices/pci0000:60" / path / address
        node.mkdir(parents=True)
        (folder / "bus/pci/devices" / address).symlink_to(node)
    for name, path in drives.items():
        node = folder / "devices/pci0000:60" / path
        (node / "nvme" / name).mkdir(parents=True)
        (node / "nvme" / name / "device").symlink_to(node)
        (folder / "class/nvme" / name).symlink_to(node / "nvme" / name)
    return folder


def test_the_drive_behind_the_cards_own_switch_is_the_cards(tmp_path: Path) -> None:
    chassis = "0000:60:01.0/0000:61:00.0"
    first, second = f"{chassis}/0000:62:00.0/0000:63:00.0", f"{chassis}/0000:62:01.0/0000:70:00.0"
    sysfs = machine(
        tmp_path,
        {"0000:65:00.1": f"{first}/0000:64:01.0", "0000:72:00.1": f"{second}/0000:71:01.0"},
        {
            "nvme0": f"{chassis}/0000:62:02.0/0000:7f:00.0",
            "nvme1": f"{first}/0000:64:00.0/0000:66:00.0",
            "nvme10": f"{second}/0000:71:00.0/0000:73:00.0",
        },
    )
    assert drives_beside("0000:65:00.1", sysfs) == ["/dev/nvme1"]
    assert drives_beside("72:00.1", sysfs) == ["/dev/nvme10"]


def test_a_shared_root_complex_is_no_pairing(tmp_path: Path) -> None:
    sysfs = machine(tmp_path, {"0000:65:00.1": "0000:60:01.0"}, {"nvme0": "0000:60:02.0/0000:66:00.0"})
    assert drives_beside("0000:65:00.1", sysfs) == []
    assert drives_beside("0000:99:00.0", sysfs) == []
    assert drives_beside("0000:65:00.1", tmp_path / "none") == []


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`nearkv device` on a machine with one SmartSSD, whose drive answers as recorded from an emulated one."""
    captures = json.loads((Path(__file__).parent / "nvme_captures" / "nvme-cli-2.16.json").read_text())
    answers = {entry["command"]: entry for name, entry in captures.items() if not name.startswith(("un", "empty"))}

    def nvme(arguments: Sequence[str]) -> Completed:
        entry = answers.get(" ".join(arguments).replace("nvme1", "nvme0"))
        return (
            Completed(entry["returncode"], entry["stdout"].encode(), entry["stderr"])
            if entry
            else Completed(1, b"", "")
        )

    def prepare(name: str | None, *, card: str = "card") -> CliRunner:
        if name is not None:
            monkeypatch.setattr(cli, "XrtTool", lambda: tool(name, card=card))
        else:
            monkeypatch.setattr(xrt, "find_tool", lambda: find_tool(lambda _: None, Path("/nonexistent")))
        monkeypatch.setattr(cli, "NvmeCli", lambda: cli_type(nvme))
        monkeypatch.setattr(cli, "drives_beside", lambda address: ["/dev/nvme1"])
        return CliRunner(env={"COLUMNS": "200"})

    cli_type = cli.NvmeCli
    return prepare


def test_device_list(command: Any) -> None:
    shown = command("xbutil").invoke(cli.app, ["list"])
    assert shown.exit_code == 0, shown.output
    for part in ("0000:65:00.1", "xilinx_u2_gen3x4", "needs a warm reboot", "62 °C", "Gen3 x4", "/dev/nvme0n1",
                 "NEARKV0002", "268.44 MB", "50 °C"):  # fmt: skip
        assert part in shown.output


def test_device_list_without_xrt_still_shows_drives(command: Any) -> None:
    shown = command(None).invoke(cli.app, ["list"])
    assert shown.exit_code == 0
    assert "neither xrt-smi nor xbutil is installed" in shown.output
    assert "/dev/nvme0n1" in shown.output


def test_device_info_says_what_to_do(command: Any) -> None:
    shown = command("xrt-smi").invoke(cli.app, ["info", "65:00.1"])
    assert shown.exit_code == 0, shown.output
    for part in (
        "P2P waits for address space",
        "FPGA at 95 °C",
        "could be Gen3 x4",
        "/dev/nvme1",
        "4.29 GB",
        "XRT: no iomem",
    ):
        assert part in shown.output


def test_device_info_without_xrt_fails_with_the_remedy(command: Any) -> None:
    shown = command(None).invoke(cli.app, ["info", "65:00.1"])
    assert isinstance(shown.exception, CardError)
    assert "source /opt/xilinx/xrt/setup.sh" in str(shown.exception)


def test_device_list_with_nothing_to_ask_fails(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = command(None)
    monkeypatch.setattr(cli, "NvmeCli", without_nvme)
    shown = runner.invoke(cli.app, ["list"])
    assert isinstance(shown.exception, CardError)
    assert "nvme-cli is not installed" in shown.output


def without_nvme() -> NvmeCli:
    def run(arguments: Sequence[str]) -> Completed:
        raise FileNotFoundError(arguments[0])

    return NvmeCli(run)


def test_device_watch_takes_as_many_readings_as_asked(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(cli.time, "sleep", slept.append)
    shown = command("xrt-smi", card="card-p2p").invoke(
        cli.app, ["watch", "65:00.1", "--count", "3", "--interval", "0.5"]
    )
    assert shown.exit_code == 0, shown.output
    assert slept == [0.5, 0.5]
    assert "58 °C" in shown.output
    assert "12.9 W" in shown.output


@pytest.mark.parametrize(
    ("node", "drive"),
    [
        ("pci0000:60/0000:60:01.0/0000:66:00.0/nvme/nvme1/nvme1n1/nvme1n1p2", "/dev/nvme1"),
        ("virtual/nvme-subsystem/nvme-subsys3/nvme3n1/nvme3n1p1", "/dev/nvme7"),
        ("virtual/nvme-subsystem/nvme-subsys4/nvme4n1", None),
        ("virtual/block/dm-0", None),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_the_drive_that_holds_a_file(tmp_path: Path, node: str, drive: str | None, exists: bool) -> None:
    number = tmp_path.stat().st_dev
    (tmp_path / "devices" / node).mkdir(parents=True)
    (tmp_path / "dev/block").mkdir(parents=True)
    for subsystem, controller in (("subsys3", "nvme7"), ("subsys4", "nvme8"), ("subsys4", "nvme9")):
        (tmp_path / f"devices/virtual/nvme-subsystem/nvme-{subsystem}/{controller}").mkdir(parents=True)
    (tmp_path / f"dev/block/{os.major(number)}:{os.minor(number)}").symlink_to(tmp_path / "devices" / node)
    store = tmp_path / "store"
    if exists:
        store.write_text("")
    assert drive_of(store, tmp_path) == drive
