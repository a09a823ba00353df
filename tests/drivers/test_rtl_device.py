"""``rtl:`` devices: the same bytes as the emulated drive on every path, cycles in the telemetry, faults in words."""

from __future__ import annotations

import re

import numpy as np
import pytest
from streams import Stream, two_streams, write_and_score

import nearkv_drivers
from nearkv_drivers.device import Device, DeviceError, Mode, Run, ScoreRequest
from nearkv_drivers.hardware import rtl_sources
from nearkv_drivers.kernel import Command
from nearkv_drivers.memory import aligned_buffer
from nearkv_drivers.native_kernel import reduce_native
from nearkv_drivers.rtl import MAX_LATENCY_CYCLES, latency_cycles
from nearkv_drivers.rtl_figures import KERNEL_HZ, Figures, Start
from nearkv_drivers.rtl_kernel import RtlKernel
from nearkv_sim.stimulus import compare


@pytest.fixture
def pair(rtl_library, tmp_path):
    """Opens an emulated and a simulated device of the same size."""
    devices = []

    def open_pair(ddr: str):
        devices.extend(nearkv_drivers.open(f"{scheme}:{tmp_path}/{scheme}?ddr={ddr}") for scheme in ("emulated", "rtl"))
        return devices[-2:]

    yield open_pair
    for device in devices:
        device.close()


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("bits", "d", "group"), [(4, 64, 3), (8, 128, 4), (4, 256, 16), (8, 32, 1)])
@pytest.mark.parametrize("ddr", ["256KiB", "64MiB"])
def test_results_and_bytes_moved_equal_the_emulated_drive(pair, rng, ddr, bits, d, group, mode):
    streams = two_streams(rng, bits, d, group)
    t0 = rng.integers(-2000, 2000, group).astype(np.int32)
    answers = []
    for device in pair(ddr):
        results = write_and_score(device, streams, mode, t0)
        streams[0].check(results[0], mode, 2048, t0)
        telemetry = device.telemetry()
        telemetry.extra = {}
        answers.append((results, telemetry))
    (emulated, expected), (simulated, counted) = answers
    for got, want in zip(simulated, emulated, strict=True):
        compare(want, got)
    assert counted == expected


def test_telemetry_reports_cycles_beats_and_stalls(pair, rng):
    _, device = pair("64MiB")
    assert device.telemetry().extra == {}
    stream = Stream(rng, 1, 200, 8, 128, 4)
    stream.write(device, 0)
    for _ in range(2):
        device.submit([stream.request(Mode.MASS)]).wait()
    telemetry = device.telemetry()
    extra = telemetry.extra
    assert extra["kernel_starts"] == 2
    assert extra["key_beats"] * 64 == telemetry.bytes_scored
    assert extra["key_beats_per_start"] * 2 == extra["key_beats"]
    assert extra["last_start_beats"] * 2 == extra["key_beats"]
    assert extra["beats_per_cycle"] == extra["key_beats"] / (extra["key_beats"] + extra["stream_stalls"])
    assert extra["beats_per_cycle_end_to_end"] == extra["key_beats"] / extra["kernel_cycles"]
    assert extra["simulated_seconds_at_300_mhz"] == extra["kernel_cycles"] / KERNEL_HZ
    assert device.capabilities.simulated
    assert isinstance(device, Device)


def test_a_slower_memory_costs_cycles_and_changes_no_result(rtl_library, rng, tmp_path):
    stream = Stream(rng, 1, 100, 4, 64, 3)
    cycles = {}
    for timing in ("bandwidth=19.2GB&latency=200ns", "bandwidth=3GB&latency=75us"):
        with nearkv_drivers.open(f"rtl:{tmp_path}/drive?ddr=64MiB&{timing}") as device:
            stream.write(device, 0)
            stream.check(device.submit([stream.request()]).wait()[0])
            cycles[timing] = device.telemetry().extra["kernel_cycles"]
    fast, slow = cycles.values()
    beats = 100 * stream.segments[0].blocks.shape[1] / 64
    assert slow - fast > 75e-6 * KERNEL_HZ
    assert slow > beats * 64 / 10


@pytest.mark.parametrize(("group", "blocks"), [(8, 65_537), (9, 32_769)])
def test_a_request_beyond_the_store_of_log_masses_is_refused(pair, rng, group, blocks):
    _, device = pair("64MiB")
    stream = Stream(rng, 1, 1, 4, 32, group)
    stream.write(device, 0)
    request = stream.request()
    request.runs[0].__dict__["blocks"] = blocks
    with pytest.raises(DeviceError, match=f"a request of {blocks} blocks .*split it"):
        device.submit([request])


def test_a_run_that_is_not_on_a_beat_is_refused(pair, rng):
    _, device = pair("64MiB")
    stream = Stream(rng, 1, 4, 4, 32, 2)
    stream.write(device, 0)
    stream.offsets[0] += 4
    with pytest.raises(DeviceError, match="drive address 4 does not begin on 64 bytes"):
        device.submit([stream.request()])


@pytest.mark.parametrize(("text", "cycles"), [("200ns", 60), ("75us", 22_500), ("0ns", 0), ("3.4ns", 1)])
def test_latencies(text, cycles):
    assert latency_cycles(text) == cycles


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("latency=200", "latency=200 is not a time: give a number and a unit"),
        ("latency=1s", "is not a time"),
        ("latency=4000us", "is beyond what the kernel waits for: at most 1747us"),
        ("bandwidth=fast", "bandwidth=fast is not a size"),
        ("bandwidth=0", "bandwidth=0 moves nothing"),
        ("ddr=4KiB", "too small"),
        ("trace=on", "rtl: has no option 'trace'"),
    ],
)
def test_bad_options_are_refused_before_anything_is_built(tmp_path, monkeypatch, option, sentence):
    monkeypatch.setenv("NEARKV_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DeviceError, match=sentence):
        nearkv_drivers.open(f"rtl:{tmp_path}/drive?{option}")
    assert not list(tmp_path.iterdir())


def watchdog_cycles() -> int:
    package = next(path for path in rtl_sources() if path.name == "nearkv_pkg.sv").read_text()
    found = re.search(r"DEFAULT_WATCHDOG_CYCLES = 1 << (\d+);", package)
    assert found
    return 1 << int(found[1])


def test_the_longest_latency_is_within_the_watchdog():
    assert latency_cycles("1747us") <= MAX_LATENCY_CYCLES
    assert watchdog_cycles() >= 2 * MAX_LATENCY_CYCLES


def test_figures_sum_over_starts_and_keep_the_last():
    figures = Figures()
    figures.add(Start(100, 40, 50, 7, 2))
    figures.add(Start(300, 60, 60, 3, 1))
    extra = figures.extra()
    assert (extra["kernel_cycles"], extra["key_beats"]) == (400, 100)
    assert (extra["stream_stalls"], extra["memory_waits"]) == (10, 10)
    assert (extra["last_start_cycles"], extra["last_start_beats"], extra["last_start_stalls"]) == (300, 60, 0)
    assert extra["beats_per_cycle"] == 100 / 110
    assert extra["kernel_requests"] == 3


@pytest.mark.parametrize(("group", "most"), [(1, 65_536), (8, 65_536), (9, 32_768), (16, 32_768)])
def test_it_refuses_more_blocks_than_its_store_holds(pair, group, most):
    """The RTL keeps one row of eight log-masses a block, or two, in 65,536 rows; the emulated drive takes 128 Ki."""
    emulated, device = pair("64MiB")
    assert device.capabilities.max_blocks == 65_536
    assert emulated.capabilities.max_blocks == 1 << 17
    coefficients = np.ones(group, np.uint16), np.zeros(group, np.uint8), np.zeros(group, np.int32)
    run = Run(0, most + 1, *coefficients)
    request = ScoreRequest([run], np.zeros((group, 32), np.int8), 4, Mode.TOPK, 1)
    with pytest.raises(DeviceError, match=f"{most + 1} blocks for {group} query heads is more than the kernel's store"):
        device.submit([request])


@pytest.mark.parametrize(("group", "most"), [(8, 65_536), (9, 32_768)])
def test_the_store_that_it_speaks_of_is_the_kernels(rtl_library, group, most):
    """One block more, past the driver's check, and the RTL itself refuses the request."""
    memory = aligned_buffer(1 << 16)
    kernel = RtlKernel(rtl_library, memory, reduce_native, latency=1, bytes_per_cycle=64.0)
    one = np.ones((1, group), np.uint16)
    command = Command(
        np.zeros(1, np.uint64), np.array([most + 1], np.uint32), one, one.astype(np.uint8), one.astype(np.int32),
        np.zeros((group, 32), np.int8), np.zeros(group, np.int32), 4, Mode.MASS, 0,
    )  # fmt: skip
    try:
        with pytest.raises(DeviceError, match="with BLOCKS"):
            kernel.start([command]).wait()
    finally:
        kernel.close()
