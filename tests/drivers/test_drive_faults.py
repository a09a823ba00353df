"""Everything that may be wrong with a path, a disk or a run that died: one sentence, nothing overwritten, no litter."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from faults import FaultyEngine

from nearkv_drivers.device import StorageError
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.memory import address_of, aligned_buffer
from nearkv_drivers.superblock import SUPERBLOCK_BYTES, Superblock

PAGE = 4096


def write_page(drive: DriveFile, page: int = 0) -> None:
    data = aligned_buffer(PAGE)
    data[:] = page + 1
    drive.write(page * PAGE, data).wait()


def kept_file(path: Path, pages: int = 3) -> Path:
    """A drive file that outlives its device, because it existed (empty) before."""
    path.touch()
    with DriveFile(path) as drive:
        for page in range(pages):
            write_page(drive, page)
    return path


# --- paths -----------------------------------------------------------------------------------------------------------


def test_a_strangers_file_is_left_alone(tmp_path):
    path = tmp_path / "thesis.tex"
    path.write_text("x" * 10_000)
    with pytest.raises(StorageError, match=r"thesis\.tex exists and was left alone: it is not a nearkv drive file"):
        DriveFile(path)
    assert path.read_text() == "x" * 10_000


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"folder .*missing does not exist: create it"):
        DriveFile(tmp_path / "missing" / "drive")


def test_a_folder_is_no_drive(tmp_path):
    with pytest.raises(StorageError, match="is a folder: give the path of a file"):
        DriveFile(tmp_path)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file is not a folder"):
        DriveFile(tmp_path / "file" / "drive")


@pytest.mark.parametrize("make", [lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/null")])
def test_special_files_are_refused(tmp_path, make):
    path = tmp_path / "special"
    make(path)
    with pytest.raises(StorageError, match="not a regular file"):
        DriveFile(path)
    assert path.exists()


def test_a_read_only_place_is_refused():
    with pytest.raises(StorageError, match=r"choose another path"):
        DriveFile("/proc/nearkv-drive")  # refuses new files even to root


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="no permission to create or write"):
        DriveFile(tmp_path / "drive")


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 2 MiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_read_only_file_system_is_refused(tiny_disk):
    subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
    with pytest.raises(StorageError, match="read-only file system: choose another path"):
        DriveFile(tiny_disk / "drive")


# --- full disks and failing drives -----------------------------------------------------------------------------------


def test_a_full_disk_is_found_before_data_is_half_written(tiny_disk):
    with DriveFile(tiny_disk / "drive") as drive:
        data = aligned_buffer(1 << 20)
        data[:] = 7
        drive.write(0, data).wait()  # a whole growth step does not fit here, this much does
        with pytest.raises(StorageError, match=r"no space left for .*drive at drive address 1048576: free space"):
            drive.write(data.size, data)
        out = aligned_buffer(data.size)
        drive.read(np.array([0]), out.size, np.array([address_of(out)], np.uint64)).wait()
        assert (out == 7).all()
    assert not list(tiny_disk.iterdir())


def test_a_file_size_limit_is_named(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with DriveFile(tmp_path / "drive") as drive:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        try:
            with pytest.raises(StorageError, match="file size limit"):
                drive.write(4 << 20, aligned_buffer(PAGE))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        write_page(drive, 3)


@pytest.mark.parametrize("write", [True, False])
def test_an_io_error_names_the_drive_address(tmp_path, write):
    engine = FaultyEngine(lambda is_write, offsets: is_write is write and 5 * PAGE in offsets - PAGE, errno.EIO)
    with DriveFile(tmp_path / "drive", engine=engine) as drive:
        data = aligned_buffer(PAGE)
        first = drive.write(5 * PAGE, data)
        if write:
            with pytest.raises(StorageError, match=r"Input/output error at drive address 20480"):
                first.wait()
            return
        first.wait()
        read = drive.read(np.array([5 * PAGE]), PAGE, np.array([address_of(data)], np.uint64))
        for _ in range(2):  # asking again must not turn the failure into a success
            with pytest.raises(StorageError, match=r"Input/output error at drive address 20480"):
                read.wait()


def test_a_failed_write_that_nobody_waited_for_is_raised_on_close(tmp_path):
    drive = DriveFile(tmp_path / "drive", engine=FaultyEngine(lambda write, offsets: write, errno.EIO))
    for page in (2, 3):
        drive.write(page * PAGE, aligned_buffer(PAGE))
    with pytest.raises(StorageError, match="Input/output error at drive address 8192"):
        drive.close()
    assert not drive.path.exists()


def test_a_file_truncated_while_in_use_is_noticed(tmp_path):
    with DriveFile(tmp_path / "drive") as drive:
        for page in range(4):
            write_page(drive, page)
        os.truncate(drive.path, SUPERBLOCK_BYTES + 2 * PAGE + 100)
        out = aligned_buffer(4 * PAGE)
        addresses = address_of(out) + np.arange(4, dtype=np.uint64) * PAGE
        drive.read(np.arange(2) * PAGE, PAGE, addresses[:2]).wait()
        with pytest.raises(StorageError, match=r"was truncated before drive address .* while in use"):
            drive.read(np.arange(4) * PAGE, PAGE, addresses).wait()


# --- who owns the file -----------------------------------------------------------------------------------------------


def test_a_new_file_is_removed_and_an_existing_one_kept(tmp_path):
    with DriveFile(tmp_path / "new") as drive:
        write_page(drive)
        assert drive.path.exists()
    assert not drive.path.exists()
    kept = kept_file(tmp_path / "kept")
    superblock = Superblock.unpack(kept.read_bytes()[:SUPERBLOCK_BYTES])
    assert not superblock.in_use
    assert not superblock.temporary
    assert kept.stat().st_size == SUPERBLOCK_BYTES + superblock.length


def test_an_exception_and_garbage_collection_remove_the_file(tmp_path):
    with pytest.raises(StorageError, match="never written"), DriveFile(tmp_path / "drive") as drive:
        drive.read(np.array([0]), PAGE, np.array([0], np.uint64))
    assert not (tmp_path / "drive").exists()
    drive = DriveFile(tmp_path / "drive")
    write_page(drive)
    del drive
    assert not (tmp_path / "drive").exists()


def test_a_file_put_in_our_place_is_not_removed(tmp_path):
    with DriveFile(tmp_path / "drive") as drive:
        write_page(drive)
        drive.path.rename(tmp_path / "moved")
        drive.path.write_text("somebody else's")
    assert drive.path.read_text() == "somebody else's"


def test_a_drive_in_use_is_refused(tmp_path):
    with (
        DriveFile(tmp_path / "drive") as drive,
        pytest.raises(StorageError, match="is in use by another device"),
    ):
        DriveFile(drive.path)
    with DriveFile(tmp_path / "drive") as drive:
        write_page(drive)


def test_stale_content_is_never_read(tmp_path):
    kept = kept_file(tmp_path / "kept")
    before = Superblock.unpack(kept.read_bytes()[:SUPERBLOCK_BYTES])
    with DriveFile(kept) as drive:
        out = aligned_buffer(PAGE)
        with pytest.raises(StorageError, match="was never written"):
            drive.read(np.array([0]), PAGE, np.array([address_of(out)], np.uint64))
        write_page(drive, 5)
        drive.read(np.array([0]), PAGE, np.array([address_of(out)], np.uint64)).wait()
        assert not out.any(), "what an earlier run wrote must be gone"
    after = Superblock.unpack(kept.read_bytes()[:SUPERBLOCK_BYTES])
    assert before.identity != after.identity


def test_a_truncated_file_is_refused_on_open(tmp_path):
    kept = kept_file(tmp_path / "kept")
    os.truncate(kept, kept.stat().st_size - PAGE)
    with pytest.raises(StorageError, match=r"is truncated: it holds .* bytes where its superblock says"):
        DriveFile(kept)
    os.truncate(kept, 100)
    with pytest.raises(StorageError, match="not a nearkv drive file"):
        DriveFile(kept)


@pytest.mark.parametrize(
    ("byte", "sentence"), [(0, "not a nearkv drive file"), (8, "of version"), (33, "superblock is damaged")]
)
def test_a_damaged_superblock_is_refused(tmp_path, byte, sentence):
    kept = kept_file(tmp_path / "kept")
    data = bytearray(kept.read_bytes())
    data[byte] ^= 0x10
    kept.write_bytes(data)
    with pytest.raises(StorageError, match=sentence):
        DriveFile(kept)
    assert kept.read_bytes() == data


# --- runs that die ---------------------------------------------------------------------------------------------------

CHILD = """
    import sys, time
    from nearkv_drivers.drive_file import DriveFile
    from nearkv_drivers.memory import aligned_buffer
    drive = DriveFile(sys.argv[1])
    data = aligned_buffer(1 << 20)
    data[:] = 9
    for i in range(8):
        drive.write(i << 20, data)
    print("ready", flush=True)
    {then}
"""


def run_child(path: Path, then: str, sign: int | None) -> subprocess.Popen:
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD).format(then=then), path],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A suite that a shell runs in the background is started with Ctrl-C ignored, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    if sign is not None:
        child.send_signal(sign)
    child.communicate(timeout=30)
    return child


@pytest.mark.parametrize(
    ("then", "sign"),
    [("time.sleep(60)", signal.SIGINT), ("sys.exit(3)", None), ("raise RuntimeError", None)],
    ids=["ctrl-c", "exit", "exception"],
)
def test_a_run_that_ends_early_leaves_no_file(tmp_path, then, sign):
    child = run_child(tmp_path / "drive", then, sign)
    assert child.returncode != 0
    assert not list(tmp_path.iterdir())


def test_what_a_killed_run_leaves_is_reused_and_then_removed(tmp_path):
    path = tmp_path / "drive"
    run_child(path, "time.sleep(60)", signal.SIGKILL)
    left = Superblock.unpack(path.read_bytes()[:SUPERBLOCK_BYTES])
    assert left.in_use
    assert left.temporary
    with DriveFile(path) as drive:
        out = aligned_buffer(PAGE)
        with pytest.raises(StorageError, match="was never written"):
            drive.read(np.array([0]), PAGE, np.array([address_of(out)], np.uint64))
        write_page(drive)
    assert not path.exists()


def test_a_forked_child_neither_removes_the_file_nor_hangs(tmp_path):
    then = "import os; pid = os.fork(); pid or sys.exit(0); os.waitpid(pid, 0); assert drive.path.exists()"
    child = run_child(tmp_path / "drive", then, None)
    assert child.returncode == 0
    assert not list(tmp_path.iterdir())
