"""The drive file: what was written is read back, in any batch, by any thread; bad transfers are refused."""

from __future__ import annotations

import errno
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkv_drivers.device import DeviceError, StorageError
from nearkv_drivers.drive_file import GROWTH_STEP, DriveFile
from nearkv_drivers.memory import address_of, aligned_buffer
from nearkv_drivers.superblock import SUPERBLOCK_BYTES

PAGE = 4096


def read_back(drive: DriveFile, offset: int, size: int) -> np.ndarray:
    out = aligned_buffer(size)
    drive.read(np.array([offset]), size, np.array([address_of(out)], np.uint64)).wait()
    return out


def pages(rng, count: int) -> np.ndarray:
    data = aligned_buffer(count * PAGE)
    data[:] = rng.integers(0, 256, count * PAGE, dtype=np.uint8)
    return data


@settings(max_examples=25, deadline=None)
@given(
    writes=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), min_size=1, max_size=12),
    reads=st.lists(st.integers(0, 59), min_size=1, max_size=40),
    seed=st.integers(0, 2**32 - 1),
)
def test_scattered_batches_read_what_was_last_written(tmp_path_factory, writes, reads, seed):
    rng = np.random.default_rng(seed)
    model = np.zeros(70 * PAGE, np.uint8)
    with DriveFile(tmp_path_factory.mktemp("d") / "drive") as drive:
        for page, count in writes:
            data = pages(rng, count)
            drive.write(page * PAGE, data).wait()
            model[page * PAGE : page * PAGE + data.size] = data
        out = aligned_buffer(len(reads) * PAGE)
        addresses = address_of(out) + np.arange(len(reads), dtype=np.uint64) * PAGE
        drive.read(np.array(reads) * PAGE, PAGE, addresses).wait()
        expected = model.reshape(-1, PAGE)[reads].reshape(-1)
        np.testing.assert_array_equal(out, expected)


def test_neighbours_in_the_file_may_go_to_scattered_memory(tmp_path, rng):
    """Joined system calls must split at the right places: 600 neighbours, in reverse order in memory."""
    count = 600
    with DriveFile(tmp_path / "drive") as drive:
        data = pages(rng, count)
        drive.write(0, data).wait()
        out = aligned_buffer(count * PAGE)
        addresses = address_of(out) + np.arange(count, dtype=np.uint64)[::-1] * PAGE
        drive.read(np.arange(count) * PAGE, PAGE, addresses).wait()
        np.testing.assert_array_equal(out.reshape(count, PAGE)[::-1].reshape(-1), data)


def test_long_transfers_and_a_length_for_each(tmp_path, rng):
    with DriveFile(tmp_path / "drive") as drive:
        data = pages(rng, 1500)
        drive.write(3 * PAGE, data).wait()
        out = aligned_buffer(1500 * PAGE)
        split = 700 * PAGE
        drive.read(
            np.array([3 * PAGE + split, 3 * PAGE]),
            np.array([data.size - split, split]),
            np.array([address_of(out) + split, address_of(out)], np.uint64),
        ).wait()
        np.testing.assert_array_equal(out, data)


def test_many_handles_from_many_threads(tmp_path, rng):
    with DriveFile(tmp_path / "drive") as drive:
        blocks = [pages(rng, 4) for _ in range(8)]

        def work(i: int) -> None:
            handles = []
            for repeat in range(20):
                handles.append(drive.write((repeat * 8 + i) * 4 * PAGE, blocks[i]))
            for handle in handles:
                handle.wait()
            for repeat in range(20):
                np.testing.assert_array_equal(read_back(drive, (repeat * 8 + i) * 4 * PAGE, 4 * PAGE), blocks[i])

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))


def test_close_waits_and_a_dropped_handle_keeps_its_data_alive(tmp_path, rng):
    path = tmp_path / "drive"
    path.touch()  # a file that existed is kept, so that it can be looked at afterwards
    expected = []
    with DriveFile(path) as drive:
        for i in range(20):
            data = pages(rng, 16)
            expected.append(data.copy())
            drive.write(i * data.size, data)
            del data
    content = np.fromfile(path, np.uint8)[PAGE:]
    np.testing.assert_array_equal(content[: 20 * 16 * PAGE], np.concatenate(expected))


def test_memory_is_given_back_once_a_write_was_waited_for(tmp_path, rng):
    with DriveFile(tmp_path / "drive") as drive:
        data = pages(rng, 4)
        given = weakref.ref(data)
        handle = drive.write(0, data)
        handle.wait()
        del data
        assert given() is None


def test_an_unaligned_array_is_written_through_a_copy(tmp_path, rng):
    with DriveFile(tmp_path / "drive") as drive:
        data = pages(rng, 3)[512 : 512 + 2 * PAGE]
        drive.write(PAGE, data).wait()
        np.testing.assert_array_equal(read_back(drive, PAGE, 2 * PAGE), data)


@pytest.mark.parametrize(
    ("offset", "size"),
    [(1, PAGE), (PAGE, PAGE - 1), (-PAGE, PAGE)],
)
def test_unaligned_writes_are_refused(tmp_path, offset, size):
    with DriveFile(tmp_path / "drive") as drive, pytest.raises(DeviceError, match="multiples of 4096"):
        drive.write(offset, aligned_buffer(size))


@pytest.mark.parametrize(("offset", "size", "shift"), [(512, PAGE, 0), (0, 512, 0), (0, PAGE, 512), (-PAGE, PAGE, 0)])
def test_unaligned_reads_are_refused(tmp_path, offset, size, shift):
    with DriveFile(tmp_path / "drive") as drive:
        drive.write(0, aligned_buffer(4 * PAGE)).wait()
        out = aligned_buffer(2 * PAGE)
        with pytest.raises(DeviceError, match="multiples of 4096"):
            drive.read(np.array([offset]), size, np.array([address_of(out) + shift], np.uint64))


def test_only_flat_bytes_are_written(tmp_path):
    with DriveFile(tmp_path / "drive") as drive:
        with pytest.raises(DeviceError, match=r"uint8 \[n\]"):
            drive.write(0, np.zeros(1024, np.float32))
        with pytest.raises(DeviceError, match=r"uint8 \[n\]"):
            drive.write(0, aligned_buffer(2 * PAGE)[::2])


def test_an_address_beyond_the_drive_was_never_written(tmp_path):
    with DriveFile(tmp_path / "drive") as drive:
        drive.write(0, aligned_buffer(PAGE)).wait()
        with pytest.raises(StorageError, match="was never written"):
            read_back(drive, GROWTH_STEP, PAGE)


def test_an_empty_batch_is_done(tmp_path):
    with DriveFile(tmp_path / "drive") as drive:
        none = drive.read(np.empty(0, np.int64), PAGE, np.empty(0, np.uint64))
        assert none.done()
        none.wait()


def test_a_closed_drive_says_so(tmp_path):
    drive = DriveFile(tmp_path / "drive")
    drive.close()
    drive.close()
    with pytest.raises(DeviceError, match="is closed"):
        drive.write(0, aligned_buffer(PAGE))
    with pytest.raises(DeviceError, match="is closed"):
        drive.flush()


def test_growth_keeps_what_is_there(tmp_path, rng):
    with DriveFile(tmp_path / "drive") as drive:
        first = pages(rng, 2)
        drive.write(0, first).wait()
        assert drive.length == GROWTH_STEP
        far = 1 << 40
        drive.write(far - PAGE, first).wait()
        drive.flush()
        assert drive.length == far + GROWTH_STEP
        np.testing.assert_array_equal(read_back(drive, 0, first.size), first)
        np.testing.assert_array_equal(read_back(drive, far - PAGE, first.size), first)
        status = drive.path.stat()
        assert status.st_size == PAGE + drive.length
        assert status.st_blocks * 512 <= 4 * GROWTH_STEP, "addresses in between must not take room"


def test_a_file_system_without_direct_io_or_fallocate_serves_as_well(tmp_path, rng, monkeypatch):
    def no_direct_io(*_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("nearkv_drivers.drive_open.fcntl.fcntl", no_direct_io)
    monkeypatch.setattr("nearkv_drivers.drive_file.allocate", lambda *_: errno.EOPNOTSUPP)
    with DriveFile(tmp_path / "drive") as drive:
        assert not drive.direct_io
        data = pages(rng, 300)
        drive.write(7 * PAGE, data).wait()
        drive.write(GROWTH_STEP, data).wait()
        np.testing.assert_array_equal(read_back(drive, 7 * PAGE, data.size), data)
        assert drive.path.stat().st_size == SUPERBLOCK_BYTES + drive.length
