"""PYNQ with the score kernel's overlay loaded: what may go wrong on the way, and the kernel's registers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from nearkv_drivers.device import DeviceError

NO_PYNQ = "pynq: devices need PYNQ: pip install 'nearkv[pynq]' on the board, or use the Python of its PYNQ image"


class BoardError(DeviceError):
    """A board or PYNQ cannot do what was asked; the message names the thing and the remedy."""


def load_pynq() -> Any:
    """The module pynq. Raises BoardError where it is missing or does not fit this Python's NumPy."""
    try:
        pynq = importlib.import_module("pynq")
    except ImportError as error:
        raise BoardError(f"{NO_PYNQ}; Python said: {error}") from error
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        raise BoardError(
            f"PYNQ {getattr(pynq, '__version__', '')} wants NumPy below 2, this Python has {np.__version__}: "
            "pip install 'numpy<2'"
        )
    return pynq


class KernelOverlay:
    """``bitstream`` loaded into the board's FPGA; ``registers`` are those of the one IP named or typed ``kernel``.

    Raises BoardError for a bitstream that is not there, is not for a board, or does not hold the kernel.
    """

    def __init__(self, bitstream: Path, kernel: str) -> None:
        self.pynq = load_pynq()
        if bitstream.suffix == ".xclbin":
            raise BoardError(
                f"{bitstream} is for a PCI Express card, which PYNQ has no device for since 3.1 (and none with P2P "
                "before): write card:ADDRESS?xclbin=…&file=…"
            )
        for needed in (bitstream, bitstream.with_suffix(".hwh")):
            if not needed.is_file():
                raise BoardError(
                    f"{needed} does not exist: PYNQ needs the bitstream and, beside it, Vivado's .hwh file"
                )
        try:
            self.overlay = self.pynq.Overlay(str(bitstream))
        except (RuntimeError, OSError, ValueError) as error:
            raise BoardError(
                f"PYNQ does not load {bitstream} ({error}): run as root, source /etc/profile.d/pynq_venv.sh and "
                "xrt_setup.sh, and check that it was built for this board"
            ) from error
        name = self._find(bitstream, kernel)
        ip = self.overlay.ip_dict[name]
        self.registers = self.pynq.MMIO(int(ip["phys_addr"]), int(ip["addr_range"]))
        self.name = name

    def _find(self, bitstream: Path, kernel: str) -> str:
        found = [
            name
            for name, ip in self.overlay.ip_dict.items()
            if name == kernel or f":{kernel}:" in str(ip.get("type", ""))
        ]
        if len(found) != 1:
            there = ", ".join(self.overlay.ip_dict) or "none"
            raise BoardError(
                f"{bitstream} holds {len(found)} kernels {kernel} where one is needed (its IP: {there}): name one of "
                "them with kernel="
            )
        return str(found[0])
