"""What is known to go wrong with real cards: each trap is sprung on the stand-in, and the driver must notice.

Where the driver's handling is taken away (``teeth``), the stand-in must make it fail: else these tests would prove
nothing.
"""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import pytest
from card_cases import score
from streams import Stream

import nearkv_drivers
from nearkv_drivers._io import PoolEngine
from nearkv_drivers.cards import kernel as card_kernel
from nearkv_drivers.cards import memory as card_memory
from nearkv_drivers.cards import slots
from nearkv_drivers.cards.device import memory_bytes
from nearkv_drivers.cards.model import CardError
from nearkv_drivers.cards.slots import LARGEST_SCALAR, Slot, set_scalar
from nearkv_drivers.device import DeviceError, Mode
from nearkv_sim.stimulus import compare

# Arguments: 32-bit integers only, everything else is dropped in silence


@pytest.mark.parametrize("value", [2.0, np.int32(2), LARGEST_SCALAR + 1, 1 << 40, -1, True, "2"])
def test_what_pyxrt_would_drop_is_refused(xrt_card, value):
    with pytest.raises(CardError, match="the kernel argument requests = "):
        set_scalar(object(), "requests", value)


@pytest.mark.parametrize("convert", [float, lambda count: count + (1 << 40)])
def test_teeth_a_dropped_argument_is_found_out_by_the_completion_record(xrt_card, card_url, monkeypatch, convert):
    drop = lambda run, name, value: run.set_arg(0, convert(value))  # noqa: E731
    monkeypatch.setattr(slots, "set_scalar", drop)
    with pytest.raises(DeviceError, match="completed 0 of 1 requests: it was started with other arguments"):
        nearkv_drivers.open(card_url("ddr=8MiB", "p2p=off"))


@pytest.mark.parametrize("argument", ["requests", "commands", "keys", "results"])
def test_teeth_a_wrong_register_is_found_out(xrt_card, card_url, argument):
    from standins.xrt_card import kernel_arguments

    arguments = kernel_arguments()
    moved = next(each for each in arguments if each["name"] == argument)
    moved["offset"] = hex(int(moved["offset"], 16) + 4)
    with pytest.raises(DeviceError, match=r"other arguments|completion record|CRC|stopped at request"):
        nearkv_drivers.open(card_url("ddr=8MiB", "p2p=off", arguments=arguments))


# Copies: host and card see each other's bytes after a sync only


@pytest.mark.parametrize(("name", "to_card"), [("commands", True), ("results", True), ("results", False)])
def test_teeth_a_missing_sync_of_a_start_is_found_out(xrt_card, card_url, stream, monkeypatch, name, to_card):
    sync = Slot._sync

    def forgetful(self, which, size, **way):
        if (which, way["to_card"]) != (name, to_card):
            sync(self, which, size, **way)

    with nearkv_drivers.open(card_url("ddr=8MiB", "p2p=on")) as device:
        stream.write(device, 0)
        device.submit([stream.request(Mode.MASS)]).wait()
        monkeypatch.setattr(Slot, "_sync", forgetful)
        if (name, to_card) == ("results", True):  # the stale record must not be taken for a new one
            xrt_card.faults.skips = True
        with pytest.raises(DeviceError):
            device.submit([stream.request(Mode.TOPK), stream.request(Mode.MASS)]).wait()


def test_teeth_a_missing_sync_of_device_memory_is_found_out(xrt_card, card_url, monkeypatch):
    monkeypatch.setattr(card_memory.HostMemory, "publish", lambda self, first, size: None)
    with pytest.raises(DeviceError, match="what the host wrote into device memory did not reach the kernel"):
        nearkv_drivers.open(card_url("ddr=8MiB", "p2p=off"))


def test_teeth_results_read_by_bo_read_make_no_sense_with_numpy_2(xrt_card, card_url, monkeypatch):
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("bo.read is right with NumPy 1")

    def read(self, start):
        size = start.image.result_bytes
        self._sync("results", size, to_card=False)
        return np.asarray(self._buffers["results"].read(size, 0)).view(np.uint8)

    monkeypatch.setattr(Slot, "results", read)
    with pytest.raises(DeviceError, match="wrote no completion record"):
        nearkv_drivers.open(card_url("ddr=8MiB", "p2p=off"))


# Sizes and alignment


@pytest.mark.parametrize("ddr", ["4GiB", "8GiB"])
def test_buffers_of_4_gb_are_refused_before_the_card_is_touched(xrt_card, card_url, ddr):
    with pytest.raises(DeviceError, match=f"ddr={ddr} is too large: XRT's buffers are smaller than 4294967296 bytes"):
        nearkv_drivers.open(card_url(f"ddr={ddr}"))
    assert xrt_card.loaded is None


@pytest.mark.parametrize("bank", [None, 4 << 30, 16 << 30])
def test_device_memory_of_a_large_bank_stays_below_4_gb(bank):
    assert (3 << 30) < memory_bytes(bank) < 4 << 30


def test_device_memory_is_what_the_bank_holds_but_for_the_starts(xrt_card, card_url):
    with nearkv_drivers.open(card_url()) as device:
        assert (60 << 20) < device.capabilities.device_dram_bytes <= 64 << 20
    with pytest.raises(CardError, match="leaves no room for score blocks"):
        memory_bytes(64 << 20)


def test_a_size_that_is_no_multiple_of_a_page_still_gives_p2p(xrt_card, card_url, stream):
    result, _, capabilities = score(card_url("ddr=8000001", "p2p=on"), stream)
    stream.check(result, Mode.MASS)
    assert capabilities.device_dram_bytes % 4096 == 0


def test_a_card_without_room_says_so(xrt_card, card_url):
    with pytest.raises(CardError, match=r"no room for device memory of .* give a smaller ddr="):
        nearkv_drivers.open(card_url("ddr=1GiB", "p2p=off"))


def test_everything_is_given_back(xrt_card, card_url, stream):
    score(card_url("ddr=8MiB"), stream)
    gc.collect()
    assert xrt_card.bank.taken_bytes == 0


# The bitstream


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kernel": "vadd"}, "holds no kernel nearkv_kernel but vadd: correct kernel= or xclbin="),
        ({"arguments": []}, r"takes 0 arguments, this driver gives 4 .*build the xclbin from this version"),
    ],
)
def test_an_xclbin_with_another_kernel_is_refused(xrt_card, card_url, changes, sentence):
    with pytest.raises(CardError, match=sentence):
        nearkv_drivers.open(card_url(**changes))
    assert xrt_card.loaded is None


def test_an_xclbin_for_another_shell_is_refused_with_both_names(xrt_card, card_url):
    xrt_card.faults.refuses_xclbin = True
    with pytest.raises(
        CardError, match=r"shell is xilinx_u2_gen3x4_xdma_gc_base_2, the xclbin was built for \w+_202110"
    ):
        nearkv_drivers.open(card_url())


def test_a_card_that_keeps_another_xclbin_is_refused(xrt_card, card_url):
    xrt_card.faults.other_uuid = True
    with pytest.raises(CardError, match=r"the card runs xclbin 00000000 and not .*another process may hold the card"):
        nearkv_drivers.open(card_url())


def test_what_is_no_xclbin_is_refused(xrt_card, card_url, tmp_path):
    url = card_url()
    (tmp_path / "nearkv.xclbin").write_bytes(b"\0")
    with pytest.raises(CardError, match=r"is no xclbin \(Invalid xclbin\)"):
        nearkv_drivers.open(url)
    (tmp_path / "nearkv.xclbin").unlink()
    with pytest.raises(CardError, match=r"nearkv\.xclbin does not exist: build it"):
        nearkv_drivers.open(url)


# Heat, hangs, and an older XRT


@pytest.mark.parametrize(("celsius", "said"), [("97", True), ("100", True), ("93", False), ("0", False)])
def test_a_card_about_to_stop_is_not_used(xrt_card, card_url, celsius, said):
    xrt_card.faults.celsius = celsius
    if said:
        with pytest.raises(CardError, match=f"FPGA is at {celsius} °C.*cool it"):
            nearkv_drivers.open(card_url("ddr=8MiB"))
        return
    with nearkv_drivers.open(card_url("ddr=8MiB")) as device:
        extra = device.telemetry().extra
    assert extra.get("fpga_celsius") == (None if celsius == "0" else 93)


def test_a_kernel_that_hangs_is_given_up(xrt_card, card_url, monkeypatch):
    monkeypatch.setattr(card_kernel, "PATIENCE_SECONDS", 0.2)
    xrt_card.faults.hangs = True
    with pytest.raises(
        CardError, match=r"did not finish in 0 s: reset the card \(sudo xrt-smi reset -d 0000:65:00.1\)"
    ):
        nearkv_drivers.open(card_url("ddr=8MiB", "p2p=off"))


@pytest.mark.parametrize("state", ["ERROR", "ABORT", "TIMEOUT", "NORESPONSE", "SKERROR", "SKCRASHED"])
def test_a_run_that_fails_is_an_error(xrt_card, card_url, state):
    xrt_card.faults.ends_with = f"ERT_CMD_STATE_{state}"
    with pytest.raises(CardError, match=f"ended with .*{state}.*reset the card"):
        nearkv_drivers.open(card_url("ddr=8MiB", "p2p=off"))


def test_a_pyxrt_that_is_too_old_is_refused(xrt_card, card_url, monkeypatch):
    from standins.pyxrt_standin import xclbin

    monkeypatch.delattr(xclbin, "get_kernels")
    with pytest.raises(CardError, match=r"update XRT \(2022\.1 and later serve"):
        nearkv_drivers.open(card_url())


def test_an_older_pyxrt_serves_too(xrt_card, card_url, stream):
    xrt_card.faults.old = True
    result, *_ = score(card_url("ddr=8MiB"), stream)
    stream.check(result, Mode.MASS)


def test_with_an_older_pyxrt_a_kernel_of_another_interface_is_still_found_out(xrt_card, card_url):
    from standins.xrt_card import kernel_arguments

    xrt_card.faults.old = True
    with pytest.raises(DeviceError, match=r"the kernel's argument 3 is no buffer .*build the xclbin from"):
        nearkv_drivers.open(card_url("ddr=8MiB", "p2p=off", arguments=kernel_arguments()[::-1]))


def test_an_xrt_that_reports_nothing_is_no_obstacle(xrt_card, card_url, stream):
    xrt_card.faults.mute = True
    result, telemetry, capabilities = score(card_url("ddr=8MiB"), stream)
    stream.check(result, Mode.MASS)
    assert "fpga_celsius" not in telemetry.extra
    assert capabilities.name == "card 0000:65:00.1"


def test_a_machine_without_pyxrt_is_told_where_it_comes_from(card_url, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyxrt", None)
    with pytest.raises(DeviceError, match=r"pyxrt, which comes with XRT and is not on PyPI: install XRT, source /opt"):
        nearkv_drivers.open(card_url())


# Compute units


def test_requests_are_spread_over_compute_units(xrt_card, card_url, rng):
    streams = [Stream(rng, 1, 20 + 9 * i, 4, 64, 3) for i in range(5)]
    answers = []
    for units in (1, 2):
        with nearkv_drivers.open(card_url("ddr=8MiB", f"cus={units}", compute_units=units)) as device:
            at = 0
            for stream in streams:
                at = stream.write(device, at)
            xrt_card.meeting = threading.Barrier(units)
            answers.append(device.submit([stream.request(Mode.MASS) for stream in streams]).wait())
            xrt_card.meeting = None
    for got, want in zip(*answers, strict=True):
        compare(want, got)
    assert xrt_card.most_at_once == 2
    assert min(xrt_card.units_used) > 0


def test_when_one_unit_fails_the_other_is_waited_for(xrt_card, card_url, rng, monkeypatch):
    streams = [Stream(rng, 1, 30, 4, 64, 3) for _ in range(2)]
    with nearkv_drivers.open(card_url("ddr=8MiB", "cus=2", compute_units=2)) as device:
        at = 0
        for stream in streams:
            at = stream.write(device, at)
        handle = device.submit([stream.request(Mode.MASS) for stream in streams])
        finished = []
        finish = card_kernel.CardKernel.finish

        def failing(self, start, slot):
            finished.append(finish(self, start, slot))
            if len(finished) == 1:
                raise CardError("the first unit failed")
            return finished[-1]

        monkeypatch.setattr(card_kernel.CardKernel, "finish", failing)
        with pytest.raises(CardError, match="the first unit failed"):
            handle.wait()
        assert len(finished) == 2


def test_a_start_that_cannot_begin_ends_what_has_begun(xrt_card, card_url, rng, monkeypatch):
    streams = [Stream(rng, 1, 30, 4, 64, 3) for _ in range(2)]
    with nearkv_drivers.open(card_url("ddr=8MiB", "cus=2", compute_units=2)) as device:
        at = 0
        for stream in streams:
            at = stream.write(device, at)
        launch, finish, begun, ended = card_kernel.CardKernel.launch, card_kernel.CardKernel.finish, [], []

        def failing(self, commands):
            if begun:
                raise CardError("no room")
            begun.append(launch(self, commands))
            return begun[0]

        monkeypatch.setattr(card_kernel.CardKernel, "launch", failing)
        monkeypatch.setattr(card_kernel.CardKernel, "finish", lambda *a: ended.append(finish(*a)) or ended[-1])
        with pytest.raises(CardError, match="no room"):
            device.submit([stream.request(Mode.MASS) for stream in streams])
        assert len(ended) == 1


def test_shares_are_even():
    commands = [type("Command", (), {"blocks": np.array([blocks])}) for blocks in (10, 90, 20, 70, 0, 50)]
    shares = card_kernel.spread(commands, 2)
    assert sorted(i for share in shares for i in share) == list(range(6))
    assert [sum(int(commands[i].blocks.sum()) for i in share) for share in shares] == [120, 120]
    assert card_kernel.spread(commands[:1], 4) == [[0]]


def test_an_unfinished_start_holds_on_to_its_answer(xrt_card, card_url, stream):
    with nearkv_drivers.open(card_url("ddr=8MiB")) as device:
        stream.write(device, 0)
        handles = [device.submit([stream.request(Mode.MASS)]) for _ in range(4)]
        for handle in reversed(handles):
            stream.check(handle.wait()[0], Mode.MASS)
            assert handle.done()
            stream.check(handle.wait()[0], Mode.MASS)


def test_staging_reads_a_mebibyte_at_a_time_and_several_at_once(xrt_card, card_url, rng, monkeypatch):
    batches = []

    class Spy(PoolEngine):
        def submit(self, fd, write, offsets, addresses, lengths):
            if not write:
                batches.append(np.broadcast_to(lengths, len(offsets)).tolist())
            return super().submit(fd, write, offsets, addresses, lengths)

    monkeypatch.setattr("nearkv_drivers.drive_file.default_engine", lambda: Spy(4))
    stream = Stream(rng, 1, 600, 8, 128, 1)
    with nearkv_drivers.open(card_url("ddr=32MiB", "p2p=on")) as device:
        batches.clear()
        stream.write(device, 0, score_blocks=False)
        stream.check(device.submit([stream.request()]).wait()[0])
    [lengths] = batches
    assert len(lengths) == 3
    assert min(lengths[:-1]) >= 1 << 20


def test_temperatures_are_not_read_at_every_look(xrt_card, card_url, monkeypatch):
    with nearkv_drivers.open(card_url("ddr=8MiB")) as device:
        assert device.telemetry().extra["fpga_celsius"] == 58
        xrt_card.faults.celsius = "60"
        assert device.telemetry().extra["fpga_celsius"] == 58
        device.card._read_at -= 1.0
        assert device.telemetry().extra["fpga_celsius"] == 60


# URLs


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("card:", "names no card"),
        ("card:65:00.1?file=/x", r"lacks xclbin= \(the built kernel\)"),
        ("card:65:00.1?xclbin=/x", r"lacks file= \(a path on the card's drive\)"),
        ("card:65:00.1?xclbin=/x&file=/y&cus=0", "cus=0 is not a number of compute units"),
        ("card:65:00.1?xclbin=/x&file=/y&cus=two", "cus=two is not a number"),
        ("card:65:00.1?xclbin=/x&file=/y&p2p=maybe", "p2p=maybe is not one of auto, on, off"),
        ("card:65:00.1?xclbin=/x&file=/y&ddr=4KiB", "too small"),
        ("card:65:00.1?xclbin=/x&file=/y&bank=0", "card: has no option 'bank'"),
        ("card:slot3?xclbin=/x&file=/y", "'slot3' is no PCI address"),
        ("card:65:00.1?xclbin=/x&file=/y", "/x does not exist"),
    ],
)
def test_bad_urls_are_refused(xrt_card, url, sentence):
    with pytest.raises(DeviceError, match=sentence):
        nearkv_drivers.open(url)
    assert xrt_card.loaded is None


def test_an_address_without_a_card_is_refused(xrt_card, card_url):
    with pytest.raises(CardError, match=r"XRT opens no card at 0000:66:00\.1"):
        nearkv_drivers.open(card_url().replace("65:00.1", "66:00.1"))
