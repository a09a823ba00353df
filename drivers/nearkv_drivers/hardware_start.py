"""One start of the hardware kernel, as whoever drives it needs it: command memory in, results out, and what went wrong.

The Verilated kernel, a card and a board differ in how bytes and registers reach the kernel; what the bytes are is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import DeviceError, Mode, ScoreResult
from nearkv_drivers.hardware import kernel_interface
from nearkv_drivers.kernel import Command, Reduction
from nearkv_drivers.kernel_memory import (
    BEAT,
    COMPLETION_DTYPE,
    CommandImage,
    pack_commands,
    parse_completion,
    parse_result,
    result_beats,
)

_INTERFACE = kernel_interface()
_STATUS = {code: name for name, code in _INTERFACE["status"].items()}
_UNWRITTEN = 0xFF
"""What the completion record holds before a start: no status has this value in all bytes."""


class Completion(NamedTuple):
    """What the kernel counted in one start; all zero where it does not count (HLS)."""

    cycles: int
    beats: int
    stream_cycles: int


class HardwareStart:
    """``commands`` (at least one, none without blocks) as ``image``; ``name`` is the kernel's in messages."""

    def __init__(self, commands: Sequence[Command], name: str) -> None:
        self._commands = commands
        self._name = name
        self.image: CommandImage = pack_commands(commands)

    def __len__(self) -> int:
        return len(self._commands)

    def clear(self, results: npt.NDArray[np.uint8]) -> None:
        """Mark the completion record at the front of ``results`` as not written; the kernel must see that."""
        results[:BEAT] = _UNWRITTEN

    def completion(self, results: npt.NDArray[np.uint8]) -> Completion:
        """Check the completion record of a start that has ended.

        Raises DeviceError naming the kernel's status, or saying that it wrote no record: it did not get its arguments
        or its results did not come back.
        """
        record = parse_completion(results[: COMPLETION_DTYPE.itemsize].tobytes())
        count = len(self._commands)
        if record["version"] != _INTERFACE["interface_version"]:
            raise DeviceError(
                f"{self._name} wrote no completion record of interface version {_INTERFACE['interface_version']}: it "
                "was built from other sources, or its arguments or results did not cross (nearkv device selftest)"
            )
        self.check_status(record["status"], record["failed"])
        if record["completed"] != count:
            raise DeviceError(
                f"{self._name} completed {record['completed']} of {count} requests: it was started with other arguments"
            )
        return Completion(record["cycles"], record["beats"], record["stream_cycles"])

    def check_status(self, status: int, failed: int) -> None:
        """Raise DeviceError for a ``status`` other than OK, which request ``failed`` caused."""
        if status:
            raise DeviceError(
                f"{self._name} stopped at request {failed} of {len(self)} with {_STATUS.get(status, status)} "
                "(docs/kernel-interface.md, Status)"
            )

    def results(self, results: npt.NDArray[np.uint8]) -> list[ScoreResult]:
        """One result per command from result memory; raises DeviceError where its bytes contradict themselves."""
        try:
            return [
                parse_result(command.mode, results[at : at + BEAT * result_beats(command)].tobytes())
                for command, at in zip(self._commands, self.image.result_offsets, strict=True)
            ]
        except ValueError as error:
            raise DeviceError(f"{self._name} returned results that make no sense ({error})") from error


class QueuedStart:
    """A start that is queued or running."""

    def __init__(self, future: Future[list[ScoreResult]]) -> None:
        self._future = future

    def wait(self) -> list[ScoreResult]:
        """One result per command, in order."""
        return self._future.result()

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""
        return self._future.done()


def around_empty(
    commands: Sequence[Command], run: Callable[[list[Command]], list[ScoreResult]], reduction: Reduction
) -> list[ScoreResult]:
    """Results of ``commands``: from ``run``, but from ``reduction`` without blocks, which hardware refuses."""
    real = [command for command in commands if len(command.blocks)]
    scored = iter(run(real) if real else [])
    return [next(scored) if len(command.blocks) else _nothing(command, reduction) for command in commands]


def _nothing(command: Command, reduction: Reduction) -> ScoreResult:
    masses = np.empty((command.q.shape[0], 0), np.int32)
    total, positions, priorities = reduction(masses, command.initial_total, 0)
    log_mass = masses if command.mode is Mode.MASS else None
    return ScoreResult(total, np.empty(0, np.uint32), positions, priorities, log_mass)
