"""``card:`` devices over the pyxrt stand-in: results of the emulated drive, bytes on the right path, two units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rtl_cases import random_commands
from streams import two_streams, write_and_score

import nearkv_drivers
from nearkv_drivers.device import Device, Mode
from nearkv_drivers.native_kernel import NativeKernel
from nearkv_sim.stimulus import compare


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("bits", "d", "group"), [(4, 64, 3), (8, 128, 9)])
@pytest.mark.parametrize("ddr", ["256KiB", "32MiB"])
def test_results_and_bytes_moved_equal_the_emulated_drive(xrt_card, card_url, tmp_path, rng, ddr, bits, d, group, mode):
    streams = two_streams(rng, bits, d, group)
    t0 = rng.integers(-2000, 2000, group).astype(np.int32)
    answers = []
    for url in (f"emulated:{tmp_path}/emulated?ddr={ddr}", card_url(f"ddr={ddr}")):
        with nearkv_drivers.open(url) as device:
            assert isinstance(device, Device)
            results = write_and_score(device, streams, mode, t0)
            streams[0].check(results[0], mode, 2048, t0)
            telemetry = device.telemetry()
            telemetry.extra = {}
            answers.append((results, telemetry))
    (emulated, expected), (card, counted) = answers
    for got, want in zip(card, emulated, strict=True):
        compare(want, got)
    assert counted == expected


def nothing_of(command):
    """``command`` without its runs."""
    fields = ("addresses", "blocks", "c", "r", "b")
    return replace(command, **{name: getattr(command, name)[:0] for name in fields})


def test_random_commands_and_empty_ones_equal_the_native_kernel(xrt_card, card_url, rng):
    with nearkv_drivers.open(card_url("ddr=32MiB", "cus=2", compute_units=2)) as device:
        memory, kernel = device._memory.memory, device._kernel
        commands = random_commands(rng, memory, 20)
        commands[3:3] = [replace(nothing_of(commands[0]), mode=Mode.MASS)]
        for some in (commands, commands[3:4], []):
            wanted = NativeKernel(memory).start(some).wait()
            for got, want in zip(kernel.start(some).wait(), wanted, strict=True):
                compare(want, got)
