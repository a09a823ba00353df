"""A test of any device through its interface: what was written is read back, and known answers come out of the kernel.

The drive file's content is scratch, so nothing is lost. Times are not judged; they are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from nearkv_drivers.device import ALIGNMENT, Device, DeviceError, Mode
from nearkv_drivers.known_answer import KnownAnswer, same
from nearkv_drivers.memory import address_of, aligned_buffer

TRANSFER_BYTES, TRANSFERS = 1 << 20, 8
"""Writes in flight at once, each as long as one staged read."""

STARTS = 4
"""Starts in flight at once."""

SHAPES = ((4, 64), (8, 64), (4, 128), (8, 128), (4, 256), (8, 256))
"""Bits per value and head sizes that are scored."""


class Step(NamedTuple):
    """One step and what came of it."""

    name: str
    passed: bool
    detail: str


class SelfTest:
    """The steps of ``device``, from drive address 0 on."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __iter__(self) -> Iterator[Step]:
        """Run every step; one that fails does not keep the others from running."""
        steps: tuple[tuple[str, Callable[[], str]], ...] = (
            ("write and read back", self._transfers),
            ("scores of blocks that the drive brings", lambda: self._scores(through=False)),
            ("scores of blocks written through", lambda: self._scores(through=True)),
            ("a damaged block is reported", self._damage),
            (f"{STARTS} starts in flight", self._overlap),
            ("finished writes are durable", self._flush),
        )
        for name, step in steps:
            begin = time.perf_counter()
            try:
                detail = step()
            except DeviceError as error:
                yield Step(name, False, str(error))
            else:
                yield Step(name, True, f"{detail} ({(time.perf_counter() - begin) * 1e3:.0f} ms)")

    def _transfers(self) -> str:
        size = TRANSFERS * TRANSFER_BYTES
        sent, back = aligned_buffer(size), aligned_buffer(size)
        sent[:] = np.random.default_rng(0).integers(0, 256, size, np.uint8)
        back[:] = 0
        chunks = [slice(at, at + TRANSFER_BYTES) for at in range(0, size, TRANSFER_BYTES)]
        for handle in [self._device.write(chunk.start, sent[chunk]) for chunk in chunks]:
            handle.wait()
        offsets = np.arange(0, size, ALIGNMENT, dtype=np.int64)
        self._device.read(offsets, ALIGNMENT, address_of(back) + offsets.astype(np.uint64)).wait()
        wrong = np.flatnonzero((sent != back).reshape(-1, ALIGNMENT).any(axis=1))
        if len(wrong):
            raise DeviceError(
                f"{len(wrong)} of {len(offsets)} pages came back different, the first at drive address "
                f"{wrong[0] * ALIGNMENT}: replace the drive, or its cable or slot"
            )
        return f"{size >> 20} MiB in {len(chunks)} writes and {len(offsets)} reads"

    def _scores(self, *, through: bool) -> str:
        before = self._device.telemetry()
        at, requests, wanted = 0, [], []
        for seed, (bits, head_dim) in enumerate(SHAPES, 100 if through else 200):  # others than what lies there
            answer = KnownAnswer(seed, parts=2, blocks=16, bits=bits, head_dim=head_dim)
            offsets = self._write(answer, at, through)
            at = offsets[-1] + answer.data.shape[1]
            for mode in Mode:
                requests.append(answer.request(offsets, mode))
                wanted.append((answer, mode))
        for result, (answer, mode) in zip(self._device.submit(requests).wait(), wanted, strict=True):
            if not same(result, answer.answer(mode)):
                raise DeviceError(
                    f"the {mode.name} result of {answer.bits}-bit blocks is wrong ({len(result.bad)} blocks failed "
                    "their CRC): the kernel or the way to it is at fault"
                )
        after = self._device.telemetry()
        moved = [
            f"{getattr(after, path) - getattr(before, path)} bytes by {path}"
            for path in ("drive_to_device", "drive_to_device_through_host", "host_to_device")
            if getattr(after, path) > getattr(before, path)
        ]
        return f"{len(requests)} requests right to the byte; " + ", ".join(moved)

    def _damage(self) -> str:
        answer = KnownAnswer(1)
        answer.data[0, 100] ^= 1
        request = answer.request(self._write(answer, 0, through=False), Mode.MASS)
        [result] = self._device.submit([request]).wait()
        if result.bad.tolist() != [0] or not same(result, answer.answer(Mode.MASS)):
            raise DeviceError(
                f"one damaged block was written, positions {result.bad.tolist()} were reported as damaged"
            )
        return "position 0, the others scored"

    def _overlap(self) -> str:
        answer = KnownAnswer(2, parts=2)
        request = answer.request(self._write(answer, 0, through=True), Mode.TOPK)
        handles = [self._device.submit([request]) for _ in range(STARTS)]
        if not all(same(handle.wait()[0], answer.answer(Mode.TOPK)) for handle in reversed(handles)):
            raise DeviceError("starts that overlap return wrong results: the kernel or the way to it is at fault")
        return "waited for in reverse"

    def _flush(self) -> str:
        self._device.flush()
        return f"{self._device.telemetry().host_to_drive} bytes"

    def _write(self, answer: KnownAnswer, at: int, through: bool) -> list[int]:
        """Write the parts of ``answer`` from drive address ``at`` on; returns where each lies."""
        offsets = [at + part * answer.data.shape[1] for part in range(len(answer.data))]
        for offset, part in zip(offsets, answer.data, strict=True):
            self._device.write(offset, part, score_blocks=through).wait()
        return offsets
