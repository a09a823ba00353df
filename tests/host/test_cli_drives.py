"""The command line on drives that are refused, full, damaged, or interrupted by Ctrl-C: one sentence, nothing left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from nearkv_drivers.drive_file import DriveFile

from tests.host.command_line import TEXT, files

# --- drives --------------------------------------------------------------------------------------------------------


@pytest.fixture
def generate_on(fails, plain):
    """Generate with a drive that must be refused."""

    def call(device, said):
        fails("generate", TEXT, "--model", plain, "--max-new-tokens", 4, "--device", device, said=said)

    return call


@contextmanager
def mounted(folder: Path, options: str):
    """A small file system of its own on ``folder``; skips where mounting is not permitted."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True) if os.geteuid() == 0 else None
    if result is None or result.returncode:
        pytest.skip(f"may not mount a tmpfs here ({'not root' if result is None else result.stderr.strip()})")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_an_unknown_device(generate_on):
    generate_on("floppy:/dev/fd0", "unknown device scheme 'floppy:' (known: ")


def test_a_folder_that_does_not_exist(generate_on, home):
    generate_on(f"emulated:{home}/missing/drive", f"the folder {home}/missing does not exist")


def test_a_path_without_permission(generate_on, home):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (home / "locked").mkdir(mode=0o500)
    generate_on(f"emulated:{home}/locked/drive", "no permission to create or write")


def test_a_read_only_file_system(generate_on, home, tmp_path_factory):
    folder = tmp_path_factory.mktemp("read-only")
    with mounted(folder, "ro,size=1m"):
        generate_on(f"emulated:{folder}/drive", "read-only file system")


def test_a_full_disk(generate_on, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    with mounted(folder, "size=64k"):
        generate_on(f"emulated:{folder}/drive", "no space left")
        assert not files(folder)


def test_a_file_size_limit(generate_on, home):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        generate_on(f"emulated:{home}/drive", "file size limit")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_strangers_file_is_left_alone(generate_on, home):
    path = home / "thesis.tex"
    path.write_bytes(b"x" * 10_000)
    generate_on(f"emulated:{path}", "exists and was left alone")
    assert path.read_bytes() == b"x" * 10_000


def test_a_truncated_store_file(generate_on, home):
    path = home / "drive"
    path.touch()  # a file that existed before is kept
    with DriveFile(path) as drive:
        drive._reserve(0, 1 << 20)
    os.truncate(path, 1 << 16)
    generate_on(f"emulated:{path}", "is truncated: it holds 65536 bytes")
    assert path.stat().st_size == 1 << 16


# --- Ctrl-C --------------------------------------------------------------------------------------------------------


def test_ctrl_c_leaves_nothing(plain, home, text_file):
    before = files(home)
    command = [sys.executable, "-c", "from nearkv.cli import main; main()", "generate", "--prompt-file", str(text_file)]
    command += ["--model", str(plain), "--max-new-tokens", "1000000", "--budget", "160"]
    environment = {**os.environ, "TMPDIR": str(home / "tmp")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A suite that a shell runs in the background is started with Ctrl-C ignored, and its children inherit that.
    process = subprocess.Popen(
        command, env=environment, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **pipes
    )
    try:
        while process.poll() is None and not any((home / "cache").glob("drive-*")):
            time.sleep(0.05)
        time.sleep(1)  # well into the answer
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    lines = [line for line in err.splitlines() if line.strip()]
    assert process.returncode == 130, err
    assert not out
    assert lines == ["interrupted: nothing was kept"]
    assert files(home) == before
