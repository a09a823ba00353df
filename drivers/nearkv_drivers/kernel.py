"""The seam between a device and its score kernel: a list of commands over device memory, one completion.

The emulated kernel (native C++), the simulated RTL and a card each implement :class:`Kernel`; what they are given is
what the hardware reads: descriptors with byte addresses in device DRAM, quantised queries and initial totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import Mode, ScoreResult


@dataclass(frozen=True, slots=True)
class Command:
    """One score request as the kernel reads it (contract §6).

    Per descriptor: ``addresses`` uint64 [n] (bytes in device DRAM), ``blocks`` uint32 [n], ``c`` uint16, ``r`` uint8
    and ``b`` int32 [n, G]. ``q`` is int8 [G, D], ``initial_total`` (T0) int32 [G]. Positions count over descriptors.
    """

    addresses: npt.NDArray[np.uint64]
    blocks: npt.NDArray[np.uint32]
    c: npt.NDArray[np.uint16]
    r: npt.NDArray[np.uint8]
    b: npt.NDArray[np.int32]
    q: npt.NDArray[np.int8]
    initial_total: npt.NDArray[np.int32]
    bits: int
    mode: Mode
    k: int

    @property
    def nbytes(self) -> int:
        """Bytes of descriptors, query and totals that cross to the device."""
        runs = self.addresses.nbytes + self.blocks.nbytes + self.c.nbytes + self.r.nbytes + self.b.nbytes
        return runs + self.q.nbytes + self.initial_total.nbytes


class KernelHandle(Protocol):
    """A kernel start in flight. Any thread may wait, any number of times."""

    def wait(self) -> list[ScoreResult]:
        """One result per command, in order."""

    def done(self) -> bool:
        """Whether :meth:`wait` would return at once."""


class Kernel(Protocol):
    """A score kernel over the device memory that it was made with."""

    def start(self, commands: Sequence[Command]) -> KernelHandle:
        """Run all ``commands`` as one start. Returns at once; starts complete in any order."""

    def close(self) -> None:
        """Release the kernel; nothing is in flight any more."""


class Reduction(Protocol):
    """The kernel's last stages on log-masses that came in parts, bit for bit as the kernel does them."""

    def __call__(
        self, log_mass: npt.NDArray[np.int32], initial_total: npt.NDArray[np.int32], k: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Totals int32 [G] of ``log_mass`` int32 [G, n] from T0, then positions and priorities of the top ``k``.

        ``k`` = 0 asks for the totals only.
        """
