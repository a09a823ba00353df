"""The paced emulated drive: the same results, held until they are due; queues, throttling, labels. No test is timed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import Stream

import nearkv_drivers
from nearkv_drivers.device import DeviceError, Mode
from nearkv_drivers.memory import address_of, aligned_buffer
from nearkv_drivers.pacing import Pace, PacedEngine, PacedKernel

GIB = 1 << 30


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self):
        self.now, self.slept = 100.0, 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.slept += seconds


def pace(rate, clock):
    return Pace("score", rate, clock=clock, sleep=clock.sleep)


@given(st.lists(st.tuples(st.integers(1, 10**9), st.floats(0, 2), st.floats(1e6, 1e10)), min_size=1, max_size=30))
def test_a_path_serves_one_transfer_after_the_other_at_its_rate(transfers):
    clock = Clock()
    path = pace(1e9, clock)
    free = clock.now
    for nbytes, pause, rate in transfers:
        clock.now += pause
        path.set_rate(rate)
        free = max(free, clock.now) + nbytes / rate
        assert path.reserve(nbytes) == pytest.approx(free)


def test_who_waits_waits_until_it_is_due_and_no_longer():
    clock = Clock()
    path = pace(1000.0, clock)
    first, second = path.reserve(500), path.reserve(500)
    assert not path.passed(first)
    path.wait(second)
    assert clock.slept == pytest.approx(1.0)
    path.wait(first)
    assert clock.slept == pytest.approx(1.0)
    assert path.passed(first)
    assert path.passed(second)


def test_without_a_rate_nothing_waits():
    clock = Clock()
    path = pace(None, clock)
    path.wait(path.reserve(10**12))
    assert clock.slept == 0


@pytest.mark.parametrize("rate", [0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_moves_nothing_is_refused(rate):
    with pytest.raises(DeviceError, match=r"score=.* moves nothing: give bytes per second"):
        Pace("score", rate)


class Ready:
    """A kernel and an engine whose work is done at once; remembers what it was given."""

    def __init__(self, answer=None):
        self.answer, self.given = answer, []

    def start(self, commands):
        self.given.append(commands)
        return self

    def submit(self, *batch):
        self.given.append(batch)
        return self

    def wait(self):
        return self.answer

    def done(self):
        return True


def test_reads_are_held_and_writes_are_not():
    clock, inner = Clock(), Ready((5, 4096))
    engine = PacedEngine(inner, pace(4096.0, clock))
    offsets, addresses = np.arange(3) * 4096, np.zeros(3, np.uint64)
    write = engine.submit(3, True, offsets, addresses, np.array([4096]))
    assert write.done()
    read = engine.submit(3, False, offsets, addresses, np.array([4096]))
    assert not read.done()
    assert read.wait() == (5, 4096)  # a failure comes through
    assert clock.slept == pytest.approx(3.0)
    assert engine.submit(3, False, offsets, addresses, np.array([4096, 4096, 8192])).wait() == (5, 4096)
    assert clock.slept == pytest.approx(7.0)
    assert [batch[1] for batch in inner.given] == [True, False, False]


def test_a_start_takes_as_long_as_its_score_blocks_do(rng, make_device):
    device, clock = make_device(64 << 20), Clock()
    stream = Stream(rng, 2, 20)
    stream.write(device, 0)
    device._kernel = PacedKernel(device.kernel, pace(float(stream.stored_bytes), clock))
    scored = sum(segment.blocks.size for segment in stream.segments)
    stream.check(device.submit([stream.request()]).wait()[0])
    assert clock.slept == pytest.approx(scored / stream.stored_bytes)


@pytest.mark.parametrize("ddr", ["256KiB", "64MiB"])
def test_the_paced_drive_returns_what_the_golden_model_does_and_says_that_it_is_simulated(tmp_path, rng, ddr):
    stream = Stream(rng, 2, 80, 4, 64, 3)
    url = f"emulated:{tmp_path}/kv.drive?ddr={ddr}&score=2GiB/s&link=3GiB/s"
    with nearkv_drivers.open(url) as device:
        stream.write(device, 0)
        for mode in Mode:
            stream.check(device.submit([stream.request(mode)]).wait()[0], mode)
        back = aligned_buffer(4096)
        device.read(np.array([0]), 4096, np.array([address_of(back)], np.uint64)).wait()
        assert (back == stream.segments[0].blocks.reshape(-1)[:4096]).all()
        assert device.capabilities.simulated
        assert "simulated bandwidth" in device.capabilities.name
        assert device.telemetry().extra == {"simulated_score_rate": 2 * GIB, "simulated_link_rate": 3 * GIB}
        device.set_pace(score=GIB)
        assert device.telemetry().extra == {"simulated_score_rate": GIB, "simulated_link_rate": 3 * GIB}
        with pytest.raises(DeviceError, match="link=-1 moves nothing"):
            device.set_pace(link=-1.0)


def test_one_path_may_be_paced_alone(tmp_path):
    with nearkv_drivers.open(f"emulated:{tmp_path}/kv.drive?ddr=1MiB&link=100MB/s") as device:
        assert device.telemetry().extra == {"simulated_link_rate": 100e6}
