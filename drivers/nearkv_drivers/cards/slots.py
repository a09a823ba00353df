"""Runs of the kernel on a card and their buffers: what a start needs besides the keys, kept from one to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearkv_drivers.cards.memory import allocate, mapped
from nearkv_drivers.cards.model import CardError
from nearkv_drivers.cards.session import XrtCard
from nearkv_drivers.hardware import kernel_interface
from nearkv_drivers.hardware_start import HardwareStart
from nearkv_drivers.kernel_memory import BEAT

LARGEST_SCALAR = 2**31 - 1
"""pyxrt hands scalars over as C int. Others, and floats, it drops in silence: the register keeps its old value."""

ARGUMENTS: dict[str, int] = {each["name"]: each["id"] for each in kernel_interface()["arguments"]}
"""Numbers of the kernel's arguments by name."""


def set_scalar(run: Any, name: str, value: int) -> None:
    """Set a 32-bit scalar argument; raises CardError for what pyxrt would drop."""
    if type(value) is not int or not 0 <= value <= LARGEST_SCALAR:
        raise CardError(f"the kernel argument {name} = {value!r} is no integer from 0 to {LARGEST_SCALAR}")
    run.set_arg(ARGUMENTS[name], value)


class Slot:
    """One run on ``keys``, and the command and result buffers that are its own.

    Pointers are given as buffers, never as numbers: pyxrt cannot hand over 64 bits.
    """

    def __init__(self, card: XrtCard, keys: Any) -> None:
        self._card = card
        self.run = card.xrt.run(card.kernel)
        self.run.set_arg(ARGUMENTS["keys"], keys)
        self._buffers: dict[str, Any] = {}
        self._arrays: dict[str, npt.NDArray[np.uint8]] = {}

    def start(self, start: HardwareStart) -> None:
        """Give the kernel its arguments and let it run."""
        image = start.image
        self._array("commands", image.commands.size)[: image.commands.size] = image.commands
        self._sync("commands", image.commands.size, to_card=True)
        start.clear(self._array("results", image.result_bytes))
        self._sync("results", BEAT, to_card=True)
        set_scalar(self.run, "requests", len(start))
        self.run.start()

    def results(self, start: HardwareStart) -> npt.NDArray[np.uint8]:
        """Result memory of ``start``, whose run has ended; valid until the next start."""
        size = start.image.result_bytes
        self._sync("results", size, to_card=False)
        return self._array("results", size)[:size]

    def _array(self, name: str, size: int) -> npt.NDArray[np.uint8]:
        """At least ``size`` bytes for the argument ``name``, as the host sees them."""
        if name not in self._arrays or self._arrays[name].size < size:
            card, index = self._card, ARGUMENTS[name]
            room = 1 << (size - 1).bit_length()  # grows seldom
            flags, group = card.xrt.bo.flags.normal, card.group(index)
            self._arrays.pop(name, None)  # before its buffer, which unmaps it
            self._buffers[name] = allocate(card.xrt, card.device, room, flags, group, f"a start's {name}")
            self._arrays[name] = mapped(self._buffers[name])
            self.run.set_arg(index, self._buffers[name])
        return self._arrays[name]

    def _sync(self, name: str, size: int, *, to_card: bool) -> None:
        """Host and card hold copies of their own: nothing crosses without this."""
        direction = self._card.xrt.xclBOSyncDirection
        way = direction.XCL_BO_SYNC_BO_TO_DEVICE if to_card else direction.XCL_BO_SYNC_BO_FROM_DEVICE
        self._buffers[name].sync(way, size, 0)
