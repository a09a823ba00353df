"""Scores from a staged device equal the golden model's, whatever lies in device DRAM and whatever happens meanwhile."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from faults import FaultyEngine, HeldWrites
from golden_kernel import run_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import Stream, padded

from nearkv.contract import encode_segment
from nearkv_drivers.device import DeviceError, Mode, Run, ScoreRequest, StorageError
from nearkv_drivers.frames import FrameTable
from nearkv_drivers.memory import address_of, aligned_buffer
from nearkv_drivers.runs import ScatteredRuns, run_table

SMALL = 256 << 10
"""The smallest device DRAM: 16 frames of 4 KiB each (and their overhang)."""
LARGE = 64 << 20


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("bits", "d"), [(4, 32), (4, 64), (8, 128), (8, 256)])
@pytest.mark.parametrize("ddr", [SMALL, LARGE])
def test_scores_equal_the_golden_model(make_device, rng, ddr, bits, d, mode):
    device = make_device(ddr, base=1 << 33)
    streams = [Stream(rng, 3, 4480 // d, bits, d) for _ in range(2)]
    at = 8192
    for stream in streams:
        at = stream.write(device, at)
    t0 = np.array([-(2**31), 0, 500], np.int32)
    for _ in range(2):
        results = device.submit([s.request(mode, initial_total=t0) for s in streams]).wait()
        for stream, result in zip(streams, results, strict=True):
            stream.check(result, mode, initial_total=t0)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    ddr=st.sampled_from([SMALL, LARGE]),
    share=st.floats(0.02, 1),
    mode=st.sampled_from(Mode),
)
def test_scattered_runs_are_scored_as_a_list_of_runs(tmp_path_factory, make_device_at, seed, ddr, share, mode):
    rng = np.random.default_rng(seed)
    with make_device_at(tmp_path_factory.mktemp("drive") / "kv", ddr) as device:
        stream = Stream(rng, 2, 90)
        stream.write(device, 4096 * int(rng.integers(0, 9)), score_blocks=bool(rng.integers(2)))
        chosen = []
        for offset, segment, *scales in zip(
            stream.offsets, stream.segments, stream.query.c, stream.query.r, stream.query.b, strict=True
        ):
            blocks, size = np.flatnonzero(rng.random(90) < share), segment.blocks.shape[1]
            for part in np.split(blocks, np.flatnonzero(np.diff(blocks) != 1) + 1):
                if len(part):
                    chosen.append(Run(offset + int(part[0]) * size, len(part), *scales))
        offsets, counts = (np.array([getattr(run, name) for run in chosen], np.int64) for name in ("offset", "blocks"))
        table = run_table(chosen, 3)
        scattered = ScatteredRuns(offsets, counts, table.c, table.r, table.b)
        for runs in (scattered, scattered):  # the second time what was staged is there
            one, two = (
                device.submit([ScoreRequest(each, stream.query.q, 4, mode, 9)]).wait()[0] for each in (chosen, runs)
            )
            for name in ("total", "bad", "positions", "priorities", "log_mass"):
                np.testing.assert_array_equal(getattr(two, name), getattr(one, name))
        far = ScatteredRuns(offsets + (1 << 40), counts, table.c, table.r, table.b)
        if chosen:
            with pytest.raises(DeviceError, match="was never written"):
                device.submit([ScoreRequest(far, stream.query.q, 4, mode, 9)])


def test_windows_overlap_reading_and_scoring(make_device, rng):
    """What does not fit runs as several starts, and each but the last begins before the next window is read."""
    device = make_device(SMALL)
    stream = Stream(rng, 1, 400)
    stream.write(device, 0)
    stream.check(device.submit([stream.request()]).wait()[0])
    starts = device.kernel.starts
    assert len(starts) > 2
    assert all(command.mode is Mode.MASS for start in starts for command in start)
    assert sum(int(c.blocks.sum()) for start in starts for c in start) == 400


def test_a_second_pass_keeps_what_fits(make_device, rng):
    """A cyclic scan of more than device DRAM begins with what the last pass left there."""
    device = make_device(SMALL)
    stream = Stream(rng, 1, 200)
    stream.write(device, 0)
    device.submit([stream.request()]).wait()
    before = device.telemetry().drive_to_device
    device.submit([stream.request()]).wait()
    assert 0 < device.telemetry().drive_to_device - before < stream.stored_bytes


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 5), st.integers(0, 3), st.booleans()),
            st.tuples(st.just("plain"), st.integers(0, 40), st.integers(1, 6)),
            st.tuples(st.just("score"), st.sets(st.integers(0, 5), min_size=1), st.sampled_from(Mode)),
        ),
        min_size=2,
        max_size=14,
    )
)
def test_any_order_of_writes_and_scores(tmp_path_factory, make_device_at, steps):
    """Six places on the drive are overwritten by four streams, written through or not, and scored in any order."""
    streams = [Stream(np.random.default_rng(i), 1 + i % 2, 60 - 10 * i) for i in range(4)]
    place_bytes = max(stream.stored_bytes for stream in streams)
    with make_device_at(tmp_path_factory.mktemp("d") / "drive", SMALL) as device:
        there: dict[int, Stream] = {}
        for step in steps:
            if step[0] == "write":
                _, place, which, through = step
                streams[which].write(device, place * place_bytes, score_blocks=through)
                there[place] = streams[which]
            elif step[0] == "plain":
                _, page, count = step
                data = aligned_buffer(count * 4096)
                data[:] = 0x5A
                device.write(page * 4096, data).wait()
                low, high = page * 4096, page * 4096 + data.size
                there = {p: s for p, s in there.items() if (p + 1) * place_bytes <= low or p * place_bytes >= high}
            else:
                _, places, mode = step
                chosen = [place for place in sorted(places) if place in there]
                requests = []
                for place in chosen:
                    stream = there[place]
                    stream.offsets = []
                    at = place * place_bytes
                    for segment in stream.segments:
                        stream.offsets.append(at)
                        at += padded(segment.blocks).size
                    requests.append(stream.request(mode))
                results = device.submit(requests).wait()
                for place, result in zip(chosen, results, strict=True):
                    there[place].check(result, mode)


# --- counters --------------------------------------------------------------------------------------------------------


def test_bytes_by_path_are_exact(make_device, rng):
    device = make_device(LARGE)
    through, staged = Stream(rng, 2, 50), Stream(rng, 1, 80)
    at = through.write(device, 0)
    staged.write(device, at, score_blocks=False)
    t = device.telemetry()
    assert t.host_to_drive == through.stored_bytes + staged.stored_bytes
    assert t.host_to_device == through.stored_bytes
    assert (t.drive_to_device, t.drive_to_host, t.device_to_host, t.commands) == (0, 0, 0, 0)

    device.submit([through.request(k=7)]).wait()
    t = device.telemetry()
    group, width = through.query.q.shape
    descriptors = 2 * (8 + 4 + group * (2 + 1 + 4))
    assert t.host_to_device == through.stored_bytes + descriptors + group * width + 4 * group
    assert t.device_to_host == 7 * 8 + 4 * group
    assert (t.drive_to_device, t.commands, t.blocks_scored, t.bad_blocks) == (0, 1, 100, 0)
    assert t.bytes_scored == 100 * through.segments[0].blocks.shape[1]

    for _ in range(2):  # the second time it is resident
        device.submit([staged.request(Mode.MASS)]).wait()
        assert device.telemetry().drive_to_device == staged.stored_bytes
    assert device.telemetry().device_to_host == t.device_to_host + 2 * (4 * group * 80 + 4 * group)

    out = aligned_buffer(3 * 4096)
    addresses = address_of(out) + np.arange(3, dtype=np.uint64) * 4096
    device.read(np.array([0, 8192, 4096]), 4096, addresses).wait()
    assert device.telemetry().drive_to_host == 3 * 4096
    assert 0 < device.telemetry().device_dram_used <= LARGE


def test_waiting_twice_counts_once(make_device, rng):
    device = make_device(LARGE)
    stream = Stream(rng, 1, 10)
    stream.write(device, 0)
    handle = device.submit([stream.request()])
    first = handle.wait()
    counted = device.telemetry()
    assert handle.wait() is first
    assert handle.done()
    assert device.telemetry() == counted


@pytest.fixture
def layers(rng):
    """Six streams of a quarter of a 1 MiB device DRAM each, on slab borders, and the bytes to stage one."""
    table = FrameTable(1 << 20)
    extent = table.count // 4 * table.slab_bytes
    streams = [Stream(rng, 1, extent // 576) for _ in range(6)]
    straddling = 3 * 4096  # pages at the three inner borders are read for the frames on both sides
    return streams, extent, streams[0].stored_bytes + straddling


def staged_by(device, stream: Stream) -> int:
    before = device.telemetry().drive_to_device
    stream.check(device.submit([stream.request()]).wait()[0])
    return device.telemetry().drive_to_device - before


def test_a_cycle_longer_than_device_dram_hits_what_fits(make_device, layers):
    """Six layers, room for four: from the third pass on at most three are read, where LRU would read all six."""
    streams, extent, stored = layers
    device = make_device(1 << 20)
    for i, stream in enumerate(streams):
        stream.write(device, i * extent)
    passes = [sum(staged_by(device, stream) for stream in streams) for _ in range(5)]
    assert all(2 * stored <= staged <= 3 * stored for staged in passes[2:]), passes


def test_what_missed_two_turns_makes_room_first(make_device, layers):
    """Four streams fill device DRAM; two of them are dropped, and two others take their frames."""
    streams, extent, stored = layers
    device = make_device(1 << 20)
    for i, stream in enumerate(streams):
        stream.write(device, i * extent)
    dropped, kept, new = streams[:2], streams[2:4], streams[4:]
    for _ in range(2):
        for stream in (*dropped, *kept):
            assert staged_by(device, stream) == 0
    for _ in range(8):
        for stream in (*kept, *new):
            last = staged_by(device, stream)
    assert last == 0
    assert [staged_by(device, stream) for stream in (*kept, *new)] == [0, 0, 0, 0]
    assert staged_by(device, dropped[0]) == stored


# --- damage and refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ddr", [SMALL, LARGE])
def test_a_damaged_block_is_reported_by_its_position(make_device, rng, ddr):
    device = make_device(ddr)
    stream = Stream(rng, 2, 150)
    stream.segments[0].blocks[3, 70] ^= 1
    stream.segments[1].blocks[149, 60] ^= 1
    stream.write(device, 0)
    for mode in Mode:
        [result] = device.submit([stream.request(mode)]).wait()
        assert result.bad.tolist() == [3, 299]
        stream.check(result, mode)
    assert device.telemetry().bad_blocks == 4


def test_a_request_without_blocks_returns_its_initial_total(make_device, rng):
    device = make_device(LARGE)
    q = np.zeros((2, 32), np.int8)
    t0 = np.array([256, -(2**31)], np.int32)
    [result] = device.submit([ScoreRequest([], q, 4, Mode.MASS, initial_total=t0)]).wait()
    assert result.total.tolist() == t0.tolist()
    assert result.log_mass is not None
    assert result.log_mass.shape == (2, 0)
    assert device.submit([]).wait() == []


def bad_request(**changes) -> ScoreRequest:
    g = changes.pop("g", 2)
    run = Run(
        changes.pop("offset", 0),
        changes.pop("blocks", 1),
        np.zeros(g, np.uint16),
        np.zeros(g, np.uint8),
        np.zeros(g, np.int32),
    )
    return ScoreRequest([run], **({"q": np.zeros((2, 32), np.int8), "bits": 4, "k": 1} | changes))


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (bad_request(q=np.zeros((2, 48), np.int8)), "queries must be int8"),
        (bad_request(q=np.zeros((2, 32), np.uint8)), "queries must be int8"),
        (bad_request(q=np.zeros((17, 32), np.int8)), "queries must be int8"),
        (bad_request(q=np.zeros(32, np.int8)), "queries must be int8"),
        (bad_request(bits=5), "bits per value, not 5"),
        (bad_request(k=0), "k must lie in 1..2048, not 0"),
        (bad_request(k=2049), "k must lie in 1..2048, not 2049"),
        (bad_request(offset=1 << 40), "was never written"),
        (bad_request(offset=-576), "was never written"),
        (bad_request(blocks=1 << 17), "was never written"),
        (bad_request(blocks=(1 << 17) + 1), "131073 blocks is too long"),
        (bad_request(g=3), "c, r and b of every run must be"),
    ],
)
def test_bad_requests_are_refused(make_device, rng, request_, sentence):
    device = make_device(LARGE)
    Stream(rng, 1, 4).write(device, 0)
    with pytest.raises(DeviceError, match=sentence):
        device.submit([request_])


def test_too_small_a_device_dram_is_refused(make_device):
    with pytest.raises(DeviceError, match=r"65536 bytes is too small: at least \d+ bytes"):
        make_device(65536)


def test_a_failed_staging_read_is_raised_and_not_believed(make_device, rng):
    failing = threading.Event()
    engine = FaultyEngine(lambda write, offsets: failing.is_set() and not write, errno.EIO)
    device = make_device(SMALL, engine=engine)
    stream = Stream(rng, 1, 400)
    stream.write(device, 0)
    failing.set()
    for _ in range(2):
        with pytest.raises(StorageError, match="Input/output error"):
            device.submit([stream.request()]).wait()
    failing.clear()
    stream.check(device.submit([stream.request()]).wait()[0])


def test_a_kernel_that_fails_in_a_window_leaves_the_device_usable(make_device, rng, monkeypatch):
    device = make_device(SMALL)
    stream = Stream(rng, 1, 400)
    stream.write(device, 0)
    starts = []

    def fail_on_the_second(commands):
        starts.append(commands)
        if len(starts) == 2:
            raise DeviceError("the kernel hangs: reset the card")
        return [run_golden(device.kernel._memory, 0, command) for command in commands]

    with monkeypatch.context() as patch:
        patch.setattr(device.kernel, "_run", fail_on_the_second)
        handle = device.submit([stream.request()])
        for _ in range(2):
            with pytest.raises(DeviceError, match="the kernel hangs"):
                handle.wait()
    stream.check(device.submit([stream.request()]).wait()[0])


def test_a_closed_device_says_so(make_device, rng):
    device = make_device(LARGE)
    stream = Stream(rng, 1, 4)
    stream.write(device, 0)
    device.close()
    with pytest.raises(DeviceError, match="is closed"):
        device.submit([stream.request()])


# --- several things in flight ----------------------------------------------------------------------------------------


def test_frames_of_a_running_start_are_not_evicted(make_device, rng):
    gate = threading.Event()
    device = make_device(SMALL, gate=gate)
    first, second = Stream(rng, 1, 90), Stream(rng, 1, 100)
    at = first.write(device, 0)
    second.write(device, at, score_blocks=False)
    running = device.submit([first.request()])
    waiting = device.submit([second.request()])  # needs frames that the first start is reading
    assert not running.done()
    threading.Timer(0.1, gate.set).start()
    second.check(waiting.wait()[0])
    first.check(running.wait()[0])


def test_close_waits_for_starts_in_flight(make_device, rng):
    gate = threading.Event()
    device = make_device(SMALL, gate=gate)
    resident, staged = Stream(rng, 1, 40), Stream(rng, 1, 300)
    at = resident.write(device, 0)
    staged.write(device, at, score_blocks=False)
    handles = [device.submit([stream.request()]) for stream in (resident, staged)]
    threading.Timer(0.1, gate.set).start()
    device.close()
    assert all(handle.done() for handle in handles)
    resident.check(handles[0].wait()[0])
    staged.check(handles[1].wait()[0])


def test_many_threads_share_a_small_device(make_device, rng):
    device = make_device(SMALL)
    streams = [Stream(rng, 1, 30 + 60 * (i % 3)) for i in range(6)]
    at = 0
    for stream in streams:
        at = stream.write(device, at)

    def work(stream: Stream) -> None:
        for i in range(10):
            mode = list(Mode)[i % 2]
            stream.check(device.submit([stream.request(mode)]).wait()[0], mode)

    with ThreadPoolExecutor(len(streams)) as pool:
        list(pool.map(work, streams))


def test_a_page_written_while_it_is_staged_is_read_again(make_device, rng):
    """Blocks 0..4 are staged while the page that they end in is being rewritten with block 5 in it."""
    engine = HeldWrites()
    device = make_device(SMALL, engine=engine)
    both = Stream(rng, 1, 6)
    six = both.segments[0]
    five = encode_segment(np.zeros((160, 32)), 4)
    five.blocks[:] = six.blocks[:5]
    data = padded(five.blocks)
    device.write(0, data).wait()
    both.segments = [five]
    both.offsets = [0]
    engine.hold()
    append = device.write(0, padded(six.blocks))  # five's bytes stay what they were
    both.check(device.submit([both.request()]).wait()[0])
    engine.release()
    append.wait()
    both.segments = [six]
    both.check(device.submit([both.request()]).wait()[0])
