"""P2P windows that do not work: XRT allocates them all the same, and the driver must notice.

Where the driver's handling is taken away (``teeth``), the stand-in must make it fail.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from card_cases import score

import nearkv_drivers
from nearkv_drivers.bring_up import BringUp
from nearkv_drivers.cards.device import P2pOffWarning
from nearkv_drivers.cards.model import CardError
from nearkv_drivers.device import Mode

SILENT_P2P_FAULTS = ("refused", "dead", "detached", "wraps", "misaligned")


@pytest.mark.parametrize("fault", SILENT_P2P_FAULTS)
def test_a_p2p_window_that_does_not_work_is_found_out(xrt_card, card_url, stream, fault):
    xrt_card.faults.p2p = fault
    with pytest.warns(P2pOffWarning, match="THROUGH HOST MEMORY"):
        result, telemetry, capabilities = score(card_url("ddr=8MiB"), stream)
    stream.check(result, Mode.MASS)
    assert not capabilities.p2p
    assert telemetry.drive_to_device == 0
    assert telemetry.drive_to_device_through_host == stream.stored_bytes


@pytest.mark.parametrize("fault", SILENT_P2P_FAULTS)
def test_who_insists_on_p2p_gets_an_error_instead(xrt_card, card_url, tmp_path, fault):
    xrt_card.faults.p2p = fault
    with pytest.raises(CardError, match=r"P2P does not work on card 0000:65:00\.1: "):
        nearkv_drivers.open(card_url("ddr=8MiB", "p2p=on"))
    assert [path.name for path in tmp_path.iterdir()] == ["nearkv.xclbin"]


def test_where_p2p_works_the_drive_writes_into_the_card(xrt_card, card_url, stream, recwarn):
    result, telemetry, capabilities = score(card_url("ddr=8MiB", "p2p=on"), stream)
    stream.check(result, Mode.MASS)
    assert capabilities.p2p
    assert (telemetry.drive_to_device, telemetry.drive_to_device_through_host) == (stream.stored_bytes, 0)
    assert not [one for one in recwarn if issubclass(one.category, P2pOffWarning)]


def test_p2p_may_be_left_out_to_measure_without(xrt_card, card_url, stream):
    with pytest.warns(P2pOffWarning, match="p2p=off asks for it"):
        result, telemetry, _ = score(card_url("ddr=8MiB", "p2p=off"), stream)
    stream.check(result, Mode.MASS)
    assert telemetry.drive_to_device_through_host == stream.stored_bytes


def test_the_p2p_buffer_is_gone_before_the_other_is_allocated(xrt_card, card_url, stream):
    """The card's one bank has no room for both."""
    xrt_card.faults.p2p = "detached"
    with pytest.warns(P2pOffWarning):
        result, *_ = score(card_url("ddr=128MiB"), stream)
    stream.check(result, Mode.MASS)


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        ("disabled", r"P2P is off \(as after every cold boot\): sudo xrt-smi configure --p2p enable -d 0000:65:00.1"),
        ("reboot", "reboot warm"),
        ("no iomem", "reboot warm"),
        ("error", "configure --p2p disable"),
    ],
)
def test_the_warning_says_how_to_get_p2p_whatever_word_xrt_uses(xrt_card, card_url, word, remedy):
    xrt_card.faults.p2p, xrt_card.faults.p2p_status = "refused", word
    with pytest.warns(P2pOffWarning, match=remedy):
        nearkv_drivers.open(card_url("ddr=8MiB")).close()


def test_a_drive_file_without_direct_io_has_no_p2p(xrt_card, card_url, stream, monkeypatch):
    monkeypatch.setattr("nearkv_drivers.drive_open._set_direct", lambda fd: False)
    with pytest.raises(CardError, match=r"without direct I/O \(use ext4 or XFS"):
        nearkv_drivers.open(card_url("ddr=8MiB", "p2p=on"))
    with pytest.warns(P2pOffWarning, match="without direct I/O"):
        result, telemetry, capabilities = score(card_url("ddr=8MiB"), stream)
    stream.check(result, Mode.MASS)
    assert (capabilities.direct_io, capabilities.p2p, telemetry.drive_to_device) == (False, False, 0)


@pytest.mark.parametrize("fault", ["detached", "wraps"])
def test_teeth_without_the_bring_up_scores_are_wrong(xrt_card, card_url, stream, monkeypatch, fault):
    monkeypatch.setattr(BringUp, "from_host", lambda self: None)
    monkeypatch.setattr(BringUp, "from_drive", lambda self, drive: None)
    xrt_card.faults.p2p = fault
    with nearkv_drivers.open(card_url("ddr=256KiB")) as device:  # windows: both halves are used
        assert device.capabilities.p2p
        stream.write(device, 0, score_blocks=False)
        [result] = device.submit([stream.request(Mode.MASS)]).wait()
    assert len(result.bad) > 0


UNPROBED = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from standins import pyxrt_standin
from standins.xrt_card import XrtCard
import nearkv_drivers
from nearkv_drivers.cards import memory
card = XrtCard(Path({library!r}))
card.faults.p2p = "dead"
pyxrt_standin.bind(card)
sys.modules["pyxrt"] = pyxrt_standin
memory._probe = lambda array: None
nearkv_drivers.open({url!r})
"""


def test_teeth_without_the_probe_a_dead_window_ends_the_process(rtl_library, card_url):
    tests = str(Path(__file__).parent)
    script = UNPROBED.format(tests=tests, library=str(rtl_library), url=card_url("ddr=8MiB"))
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGBUS, ended.stderr


def test_a_drive_file_on_another_drive_is_pointed_out(xrt_card, card_url, monkeypatch):
    monkeypatch.setattr("nearkv_drivers.cards.device.drives_beside", lambda address: ["/dev/nvme1"])
    for used, said in (("/dev/nvme1", None), ("/dev/nvme0", "lies on /dev/nvme0"), (None, "lies on no NVMe drive")):
        monkeypatch.setattr("nearkv_drivers.cards.device.drive_of", lambda file, used=used: used)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            nearkv_drivers.open(card_url("ddr=8MiB")).close()
        texts = [str(one.message) for one in caught]
        assert [said in text and "0000:65:00.1 is /dev/nvme1" in text for text in texts] == ([True] if said else [])
