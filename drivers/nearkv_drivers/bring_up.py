"""What a card or a board must show before it is believed: that every byte reaches the kernel, by every path.

Allocating device memory proves nothing: XRT only logs a P2P window that it could not map. So known score blocks are put
into device memory, first by the host and then by the drive, and the kernel must return the known answer for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import DeviceError, Mode, StorageError
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.kernel import Kernel
from nearkv_drivers.known_answer import KnownAnswer, same
from nearkv_drivers.landing import Landing
from nearkv_drivers.memory import address_of

FIRST_PLACE = 1 << 20
"""Distance of the second place from the first; every further one doubles it, so that a window which wraps shows."""


class BringUp:
    """Tests of one device memory of ``memory.size`` bytes, before anything else uses it.

    Each raises DeviceError saying which path failed.
    """

    def __init__(self, memory: npt.NDArray[np.uint8], landing: Landing, kernel: Kernel) -> None:
        self._memory = memory
        self._landing = landing
        self._kernel = kernel

    def from_host(self) -> None:
        """The host writes blocks all over the memory, the kernel scores them."""
        answer, places = self._answer(1)
        for place, part in zip(places, answer.data, strict=True):
            self._memory[place : place + part.size] = part
            self._landing.publish(place, part.size)
        self._compare(answer, places, "what the host wrote into device memory")

    def from_drive(self, drive: Path) -> None:
        """The drive puts other blocks there: through a file beside ``drive``, which goes away again."""
        answer, places = self._answer(2)
        room = answer.data.shape[1]
        with DriveFile(drive.with_name(f"{drive.name}.selftest")) as file:
            file.write(0, answer.data.reshape(-1)).wait()
            base = address_of(self._memory)
            offsets = np.arange(len(places), dtype=np.int64) * room
            try:
                file.read(offsets, room, np.array([base + place for place in places], np.uint64)).wait()
            except StorageError as error:
                raise DeviceError(f"the drive cannot write into device memory: {error}") from error
        for place in places:
            self._landing.publish(place, room)
        self._compare(answer, places, "what the drive wrote into device memory")

    def _answer(self, seed: int) -> tuple[KnownAnswer, list[int]]:
        room = KnownAnswer(seed).data.shape[1]
        end = self._memory.size - room
        places = [0]
        while (place := FIRST_PLACE << len(places) - 1) + room <= end:
            places.append(place)
        return KnownAnswer(seed, parts=len(places) + 1), [*places, end]

    def _compare(self, answer: KnownAnswer, places: Sequence[int], what: str) -> None:
        for mode in Mode:
            [result] = self._kernel.start([answer.command(places, mode)]).wait()
            if len(result.bad):
                raise DeviceError(f"{what} did not reach the kernel: {len(result.bad)} blocks fail their CRC")
            if not same(result, answer.answer(mode)):
                raise DeviceError(f"the kernel's {mode.name} result for {what} is wrong: rebuild the bitstream")
