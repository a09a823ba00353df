"""A virtual machine with two NVMe drives, and an agent in it that runs commands for the tests."""

from __future__ import annotations

import base64
import contextlib
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from nearkv_drivers.tools import Completed

MEMORY_MIB = 512
ANSWER_SECONDS = 60.0
"""How long a command in the guest may take; emulation without KVM is slow, a hung guest is slower."""


class Guest:
    """Boots ``kernel`` and ``initramfs`` with one emulated NVMe drive per image; use it as a context manager."""

    def __init__(self, kernel: Path, initramfs: Path, drives: Sequence[tuple[str, Path]], disk: Path | None = None):
        """``drives`` are (serial number, raw image), the first becomes nvme0; ``disk`` is a read-only /dev/vda."""
        self._folder = Path(tempfile.mkdtemp(prefix="nearkv"))
        self.console = self._folder / "console"
        self._command = [
            "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-m", str(MEMORY_MIB),
            "-nodefaults", "-display", "none", "-no-reboot", "-kernel", str(kernel), "-initrd", str(initramfs),
            "-append", "console=ttyS0 panic=-1 quiet", "-serial", f"file:{self.console}",
            "-device", "virtio-serial", "-device", "virtserialport,chardev=agent",
            "-chardev", f"socket,id=agent,path={self._folder}/agent,server=on,wait=on",
        ]  # fmt: skip
        if disk is not None:
            self._command += ["-drive", f"file={disk},if=none,format=raw,id=disk,readonly=on"]
            self._command += ["-device", "virtio-blk-pci,drive=disk"]
        for index, (serial, image) in enumerate(drives):
            self._command += ["-drive", f"file={image},if=none,format=raw,id=drive{index}"]
            self._command += ["-device", f"nvme,drive=drive{index},serial={serial}"]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_SECONDS)
        deadline = time.monotonic() + ANSWER_SECONDS
        while self._socket.connect_ex(str(self._folder / "agent")):
            if self._process.poll() is not None:
                raise RuntimeError(f"QEMU ended at once: {self._process.stderr.read() if self._process.stderr else ''}")
            if time.monotonic() > deadline:
                raise RuntimeError("QEMU did not open the agent's socket")
            time.sleep(0.01)
        self._stream = self._socket.makefile("rwb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._socket.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()
        shutil.rmtree(self._folder)

    def shell(self, script: str) -> Completed:
        """Run a BusyBox shell script in the guest and wait for it."""
        self._stream.write(base64.b64encode(script.encode()) + b"\n")
        self._stream.flush()
        try:
            status, output, error = (self._stream.readline() for _ in range(3))
        except TimeoutError as failure:
            raise RuntimeError(f"the guest does not answer; its console:\n{self.console.read_text()}") from failure
        return Completed(int(status), base64.b64decode(output), base64.b64decode(error).decode())

    def run(self, command: Sequence[str]) -> Completed:
        """Run one command, as the wrapper's runner does on this machine."""
        return self.shell(f"exec {shlex.join(command)}")

    def power_off(self) -> int:
        """Shut the guest down; QEMU's exit status."""
        self._stream.write(base64.b64encode(b"sync; poweroff -f") + b"\n")
        with contextlib.suppress(BrokenPipeError):
            self._stream.flush()
        return self._process.wait(ANSWER_SECONDS)
