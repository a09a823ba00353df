"""``nearkv device selftest`` and ``info`` on every kind of device, sound and broken."""

from __future__ import annotations

import pytest
from rich.console import Console
from typer.testing import CliRunner

import nearkv_drivers
from nearkv_drivers.cards import cli
from nearkv_drivers.device import DeviceError
from nearkv_drivers.native_kernel import NativeKernel
from nearkv_drivers.selftest import SelfTest
from nearkv_drivers.staging import DeviceMemory

STEPS = 6


def run(*arguments: str):
    return CliRunner(env={"COLUMNS": "240"}).invoke(cli.app, list(arguments))


@pytest.fixture
def urls(request, tmp_path):
    """The URL of a scheme; fixtures that it needs are set up."""

    def url(scheme: str) -> str:
        if scheme == "card":
            request.getfixturevalue("xrt_card")
            return request.getfixturevalue("card_url")("ddr=16MiB")
        if scheme == "pynq":
            request.getfixturevalue("pynq_board")
            return request.getfixturevalue("pynq_url")("ddr=16MiB")
        if scheme == "rtl":
            request.getfixturevalue("rtl_library")
        return f"{scheme}:{tmp_path}/store?ddr=16MiB"

    return url


@pytest.mark.parametrize("scheme", ["emulated", "rtl", "card", "pynq"])
def test_a_sound_device_passes_every_step(urls, tmp_path, scheme):
    shown = run("selftest", urls(scheme))
    assert shown.exit_code == 0, shown.output
    lines = [line for line in shown.output.splitlines() if not line.startswith("look at")]
    assert len(lines) == STEPS + 1
    assert all(line.startswith("passed ") for line in lines), shown.output
    path = "drive_to_device_through_host" if scheme == "pynq" else "drive_to_device"
    assert f" bytes by {path}" in lines[2]
    assert not (tmp_path / "store").exists()


def test_a_card_without_p2p_passes_and_says_so(urls, xrt_card):
    xrt_card.faults.p2p, xrt_card.faults.celsius = "dead", "94"
    shown = run("selftest", urls("card"))
    assert shown.exit_code == 0, shown.output
    assert "score blocks go THROUGH HOST MEMORY" in shown.output
    assert "look at card 0000:65:00.1" in shown.output
    assert "look at FPGA at 94 °C" in shown.output


def test_a_device_that_does_not_open_fails_with_its_sentence(urls, xrt_card):
    xrt_card.faults.refuses_xclbin = True
    shown = run("selftest", urls("card"))
    assert shown.exit_code == 1
    assert shown.output.startswith("FAILED open: XRT does not load ")


def test_an_unknown_scheme_fails(tmp_path):
    shown = run("selftest", f"cards:{tmp_path}/x")
    assert shown.exit_code == 1
    assert "FAILED open: unknown device scheme 'cards:'" in shown.output


def failed_steps(url: str) -> list[str]:
    with nearkv_drivers.open(url) as device:
        return [step.name for step in SelfTest(device) if not step.passed]


def test_a_kernel_that_scores_wrongly_fails_its_steps(urls, monkeypatch):
    url = urls("emulated")
    start = NativeKernel.start
    with nearkv_drivers.open(url) as device:
        test = SelfTest(device)
        kernel = device._kernel

        def deaf(commands):
            queries = {id(command.q): command.q for command in commands}.values()
            for query in queries:
                query[0, 0] ^= 1
            results = start(kernel, commands).wait()
            for query in queries:
                query[0, 0] ^= 1
            return type("Done", (), {"wait": lambda self: results, "done": lambda self: True})()

        monkeypatch.setattr(kernel, "start", deaf, raising=False)
        failed = [step.name for step in test if not step.passed]
    assert failed == [
        "scores of blocks that the drive brings", "scores of blocks written through", "a damaged block is reported",
        "4 starts in flight",
    ]  # fmt: skip


def test_a_write_through_that_gets_lost_fails_its_step(urls, monkeypatch):
    wrote = DeviceMemory.wrote

    def forgetful(self, first, data, score_blocks, handle):
        return wrote(self, first, data * 0 if score_blocks else data, score_blocks, handle)

    monkeypatch.setattr(DeviceMemory, "wrote", forgetful)
    assert failed_steps(urls("emulated")) == ["scores of blocks written through", "4 starts in flight"]


def test_a_drive_that_returns_other_bytes_fails_its_step(urls, monkeypatch):
    url = urls("emulated")
    with nearkv_drivers.open(url) as device:
        read = device.read
        backwards = lambda offsets, length, addresses: read(offsets[::-1].copy(), length, addresses)  # noqa: E731
        monkeypatch.setattr(device, "read", backwards, raising=False)
        steps = list(SelfTest(device))
    assert not steps[0].passed
    assert "2048 of 2048 pages came back different, the first at drive address 0" in steps[0].detail
    assert all(step.passed for step in steps[1:])


def test_an_error_in_one_step_leaves_the_others(urls, monkeypatch):
    with nearkv_drivers.open(urls("emulated")) as device:

        def flush():
            raise DeviceError("the drive is gone")

        monkeypatch.setattr(device, "flush", flush, raising=False)
        steps = list(SelfTest(device))
    assert [(step.passed, step.detail) for step in steps if not step.passed] == [(False, "the drive is gone")]


@pytest.mark.parametrize("scheme", ["emulated", "rtl", "pynq"])
def test_info_shows_what_a_device_can_do(urls, scheme):
    shown = run("info", urls(scheme))
    assert shown.exit_code == 0, shown.output
    for part in ("device DRAM", "bits per value", "4, 8", "32, 64, 128, 256"):
        assert part in shown.output
    assert ("through host memory" in shown.output) == (scheme == "pynq")


def test_info_of_a_card_url_shows_the_card_and_leaves_it_alone(urls, xrt_card, monkeypatch):
    asked = []
    monkeypatch.setattr(cli, "XrtTool", lambda: None)
    monkeypatch.setattr(cli, "_report", lambda tool, address: asked.append(address) or Console().render_str("a card"))
    shown = run("info", urls("card"))
    assert (shown.output.strip(), asked) == ("a card", ["0000:65:00.1"])
    assert xrt_card.loaded is None
