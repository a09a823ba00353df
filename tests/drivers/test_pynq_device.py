"""``pynq:`` devices over the pynq stand-in: results of the emulated drive, and each way in which boards go wrong."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from streams import two_streams, write_and_score
from tiny_model import generate, tiny_model

import nearkv_drivers
from nearkv_drivers.boards import kernel as board_kernel
from nearkv_drivers.boards.memory import BoardMemory
from nearkv_drivers.boards.overlay import BoardError
from nearkv_drivers.device import Device, DeviceError, Mode
from nearkv_sim.stimulus import compare


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("bits", "d", "group"), [(4, 64, 3), (8, 128, 9)])
@pytest.mark.parametrize("ddr", ["256KiB", "16MiB"])
def test_results_equal_the_emulated_drive(pynq_board, pynq_url, tmp_path, rng, ddr, bits, d, group, mode):
    streams = two_streams(rng, bits, d, group)
    answers = []
    for url in (f"emulated:{tmp_path}/emulated?ddr={ddr}", pynq_url(f"ddr={ddr}")):
        with nearkv_drivers.open(url) as device:
            assert isinstance(device, Device)
            results = write_and_score(device, streams, mode)
            answers.append((results, device.telemetry(), device.capabilities))
    (emulated, expected, _), (board, counted, capabilities) = answers
    for got, want in zip(board, emulated, strict=True):
        compare(want, got)
    assert not capabilities.p2p
    assert (counted.drive_to_device, counted.drive_to_device_through_host) == (0, expected.drive_to_device)
    assert counted.extra["kernel_requests"] > 0
    assert counted.extra["kernel_cycles"] > counted.extra["key_beats"] > 0


def test_a_model_generates_the_same_tokens(pynq_board, pynq_url, tmp_path):
    model = tiny_model()
    tokens, report = generate(model, pynq_url("ddr=16MiB"), 4)
    assert tokens == generate(model, f"emulated:{tmp_path}/emulated?ddr=16MiB", 4)[0]
    assert report["device"]["name"] == "board kernel nearkv_kernel_0"


def test_teeth_without_a_flush_of_commands_or_memory_it_fails(pynq_board, pynq_url, monkeypatch):
    from standins.pynq_standin import PynqBuffer

    monkeypatch.setattr(PynqBuffer, "flush", lambda self: None)
    with pytest.raises(DeviceError):
        nearkv_drivers.open(pynq_url())


def test_teeth_without_a_flush_of_device_memory_blocks_fail(pynq_board, pynq_url, monkeypatch):
    def publish(self, first, size):
        self.buffer[first : first + size][:] = self.array[first : first + size]

    monkeypatch.setattr(BoardMemory, "publish", publish)
    with pytest.raises(DeviceError, match="what the host wrote into device memory did not reach the kernel"):
        nearkv_drivers.open(pynq_url())


def test_teeth_without_an_invalidate_there_is_no_record(pynq_board, pynq_url, monkeypatch):
    from standins.pynq_standin import PynqBuffer

    monkeypatch.setattr(PynqBuffer, "invalidate", lambda self: None)
    with pytest.raises(DeviceError, match="wrote no completion record"):
        nearkv_drivers.open(pynq_url())


@pytest.mark.parametrize("argument", ["requests", "commands", "keys", "results"])
def test_teeth_a_wrong_register_is_found_out(pynq_board, pynq_url, monkeypatch, argument):
    monkeypatch.setattr(board_kernel, "PATIENCE_SECONDS", 1.0)
    moved = {name: dict(each) for name, each in board_kernel._ARGUMENTS.items()}
    moved[argument]["offset"] += 4
    monkeypatch.setattr(board_kernel, "_ARGUMENTS", moved)
    with pytest.raises(DeviceError):
        nearkv_drivers.open(pynq_url())


def test_teeth_mmio_takes_python_ints_only(pynq_board, pynq_url, monkeypatch):
    real = board_kernel.BoardKernel._start
    monkeypatch.setattr(board_kernel.BoardKernel, "_start", lambda self, count: real(self, np.int64(count)))
    with pytest.raises(ValueError, match="Data type must be int"):
        nearkv_drivers.open(pynq_url())


def test_a_kernel_that_hangs_is_given_up(pynq_board, pynq_url, monkeypatch):
    monkeypatch.setattr(board_kernel, "PATIENCE_SECONDS", 0.2)
    with nearkv_drivers.open(pynq_url()) as device:
        pynq_board.hangs = True
        kernel = device._kernel
        command = _known_command()
        with pytest.raises(BoardError, match="did not finish in 0 s: its memory does not answer"):
            kernel.start([command]).wait()
        with pytest.raises(BoardError, match="is not idle: another process uses it, or it hangs"):
            kernel.start([command]).wait()


def _known_command():
    from nearkv_drivers.known_answer import KnownAnswer

    return KnownAnswer(1).command([0], Mode.MASS)


def test_everything_is_given_back(pynq_board, pynq_url):
    nearkv_drivers.open(pynq_url()).close()
    gc.collect()
    assert pynq_board.bank.taken_bytes == 0


def test_a_board_without_contiguous_memory_says_so(pynq_board, pynq_url, tmp_path):
    with pytest.raises(BoardError, match=r"no contiguous memory for device memory of .*smaller ddr=, or more CMA"):
        nearkv_drivers.open(pynq_url("ddr=128MiB"))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("ips", "sentence"),
    [
        ({}, r"holds 0 kernels nearkv_kernel where one is needed \(its IP: none\)"),
        ({"a": {"type": "v:l:nearkv_kernel:1"}, "b": {"type": "v:l:nearkv_kernel:1"}}, r"holds 2 kernels .*kernel="),
    ],
)
def test_a_bitstream_without_the_kernel_is_refused(pynq_board, pynq_url, ips, sentence):
    with pytest.raises(BoardError, match=sentence):
        nearkv_drivers.open(pynq_url(ips=ips))


def test_one_of_several_kernels_may_be_named(pynq_board, pynq_url):
    from standins.pynq_standin import TYPE

    ips = {name: {"type": TYPE, "phys_addr": 0xA0000000, "addr_range": 0x1000} for name in ("first", "second")}
    with nearkv_drivers.open(pynq_url("kernel=second", ips=ips)) as device:
        assert device.capabilities.name == "board kernel second"


def test_what_pynq_cannot_load_is_refused_in_its_words(pynq_board, pynq_url):
    pynq_board.fails = RuntimeError("Root permissions required.")
    with pytest.raises(BoardError, match=r"does not load .*nearkv\.bit \(Root permissions required\.\): run as root"):
        nearkv_drivers.open(pynq_url())


def test_numpy_2_is_refused(pynq_board, pynq_url, monkeypatch):
    monkeypatch.setattr("nearkv_drivers.boards.overlay.np.__version__", "2.1.0")
    with pytest.raises(BoardError, match=r"PYNQ 3\.1\.2 wants NumPy below 2, this Python has 2\.1\.0: pip install"):
        nearkv_drivers.open(pynq_url())


def test_a_card_is_no_board(pynq_board, tmp_path):
    with pytest.raises(BoardError, match=r"for a PCI Express card, .* no device for since 3\.1 .*card:ADDRESS"):
        nearkv_drivers.open(f"pynq:{tmp_path}/nearkv.xclbin?file={tmp_path}/store")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("pynq:?file=/x", "lacks a bitstream or file="),
        ("pynq:/nearkv.bit", "lacks a bitstream or file="),
        ("pynq:/nearkv.bit?file=/x&cus=2", "pynq: has no option 'cus'"),
        ("pynq:/nearkv.bit?file=/x&ddr=1KiB", "too small"),
        ("pynq:/no/nearkv.bit?file=/x", r"/no/nearkv\.bit does not exist: PYNQ needs"),
    ],
)
def test_bad_urls_are_refused(pynq_board, url, sentence):
    with pytest.raises(DeviceError, match=sentence):
        nearkv_drivers.open(url)


def test_a_machine_without_pynq_is_told_the_extra(pynq_url, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynq", None)
    with pytest.raises(DeviceError, match=r"pip install 'nearkv\[pynq\]' on the board"):
        nearkv_drivers.open(pynq_url())
