"""A card with the score kernel loaded, through pyxrt: found, programmed, and checked to be what the driver expects."""

from __future__ import annotations

import importlib
import json
import time
from pathlib import Path
from typing import Any

from nearkv_drivers.cards import parse
from nearkv_drivers.cards.model import Card, CardError
from nearkv_drivers.fields import OutputError
from nearkv_drivers.hardware import kernel_interface

NO_PYXRT = (
    "card: devices need pyxrt, which comes with XRT and is not on PyPI: install XRT, source /opt/xilinx/xrt/setup.sh, "
    "and use the Python that XRT was built for (its version is in the name of /opt/xilinx/xrt/python/pyxrt*.so)"
)


SENSOR_SECONDS = 1.0
"""Telemetry is asked for many times a second; the card's sensors take milliseconds and change slowly."""


def load_pyxrt() -> Any:
    """The module pyxrt. Raises CardError with the remedy where it cannot be imported or is too old."""
    try:
        xrt = importlib.import_module("pyxrt")
    except ImportError as error:
        raise CardError(f"{NO_PYXRT}; Python said: {error}") from error
    if not hasattr(xrt.xclbin, "get_kernels"):
        raise CardError(
            "this pyxrt knows neither kernels nor the addresses of cards: update XRT (2022.1 and later serve; older "
            "shells work with them)"
        )
    return xrt


class XrtCard:
    """The card at ``address`` with ``xclbin`` loaded and ``kernel_name`` opened; everything is pyxrt's own.

    Raises CardError for a card that is not there, an xclbin that is not for its shell, and one without the kernel.
    """

    def __init__(self, address: str, xclbin: Path, kernel_name: str) -> None:
        self.xrt = load_pyxrt()
        try:
            self.address = parse.full_address(address)
        except ValueError as error:
            raise CardError(f"{error}: `nearkv device list` shows the cards' addresses") from None
        if not xclbin.is_file():
            raise CardError(f"{xclbin} does not exist: build it with `make -C fpga xclbin`, or correct xclbin=")
        try:
            self.device = self.xrt.device(self.address)
        except RuntimeError as error:
            raise CardError(
                f"XRT opens no card at {self.address} ({error}): `nearkv device list` shows the cards; a user must be "
                "in the group that owns /dev/dri/render*"
            ) from error
        self._celsius: int | None = None
        self._read_at = -SENSOR_SECONDS
        self.xclbin = self._image(xclbin)
        self._check_kernel(xclbin, kernel_name)
        uuid = self._load(xclbin)
        try:
            # the mode is given because older pyxrt has no constructor without it
            self.kernel = self.xrt.kernel(self.device, uuid, kernel_name, self.xrt.kernel.cu_access_mode.shared)
        except RuntimeError as error:
            raise CardError(
                f"XRT opens no kernel {kernel_name} on {self.address} ({error}): another process may hold it alone"
            ) from error

    def _image(self, path: Path) -> Any:
        try:
            return self.xrt.xclbin(str(path))
        except RuntimeError as error:
            raise CardError(f"{path} is no xclbin ({error}): build it with `make -C fpga xclbin`") from error

    def _check_kernel(self, path: Path, name: str) -> None:
        """Older pyxrt does not say how many arguments a kernel takes; then the completion record must find it out."""
        arguments = len(kernel_interface()["arguments"])
        kernels = {
            kernel.get_name(): kernel.get_num_args() if hasattr(kernel, "get_num_args") else arguments
            for kernel in self.xclbin.get_kernels()
        }
        if name not in kernels:
            there = ", ".join(kernels) or "none"
            raise CardError(f"{path} holds no kernel {name} but {there}: correct kernel= or xclbin=")
        if kernels[name] != arguments:
            raise CardError(
                f"the kernel {name} in {path} takes {kernels[name]} arguments, this driver gives {arguments} "
                "(docs/kernel-interface.md): build the xclbin from this version's sources"
            )

    def _load(self, path: Path) -> Any:
        """Program the card. XRT compares the interface; its message names neither side, so ours does."""
        shells = f"the card's shell is {self.shell or 'unknown'}, the xclbin was built for {self.xclbin.get_xsa_name()}"
        try:
            uuid = self.device.load_xclbin(self.xclbin)
        except RuntimeError as error:
            raise CardError(
                f"XRT does not load {path} ({error}): {shells}; see dmesg, and rebuild with PLATFORM= of that shell"
            ) from error
        loaded, wanted = (one.to_string() for one in (self.device.get_xclbin_uuid(), self.xclbin.get_uuid()))
        if loaded != wanted:
            raise CardError(
                f"the card runs xclbin {loaded} and not {wanted} of {path}: {shells}; another process may hold the "
                "card, end it and try again"
            )
        return uuid

    @property
    def shell(self) -> str:
        """The name of the card's shell as XRT gives it; empty where it does not."""
        return self._info("name")

    def group(self, argument: int) -> int:
        """The memory group that buffers for ``argument`` (its number) must lie in."""
        try:
            return int(self.kernel.group_id(argument))
        except (RuntimeError, IndexError) as error:
            raise CardError(
                f"the kernel's argument {argument} is no buffer ({error}): build the xclbin from this version's sources"
            ) from error

    def bank_bytes(self, group: int) -> int | None:
        """Size of the memory bank of ``group``; None where the xclbin does not describe it."""
        sizes = {bank.get_index(): bank.get_size_kb() << 10 for bank in self.xclbin.get_mems() if bank.get_used()}
        return sizes.get(group)

    def celsius(self) -> int | None:
        """The FPGA's temperature, read anew at most every SENSOR_SECONDS; None where XRT does not say."""
        now = time.monotonic()
        if now - self._read_at >= SENSOR_SECONDS:
            report = self.report()
            self._celsius, self._read_at = report.fpga_celsius if report else None, now
        return self._celsius

    def report(self) -> Card | None:
        """What XRT reports of shell, P2P and temperatures, without its tools; None where this version says nothing."""
        device: dict[str, Any] = {"device_id": self.address}
        for key in ("platform", "thermal", "electrical"):
            try:
                record = json.loads(self._info(key) or "{}")
            except ValueError:
                record = {}
            device |= {"electrical": record} if key == "electrical" else record
        try:
            return parse.card(json.dumps({"devices": [device]}), f"pyxrt's information on {self.address}")
        except OutputError:
            return None

    def _info(self, key: str) -> str:
        """pyxrt's text for ``key``; empty where this version of XRT or this card does not have it."""
        name = getattr(getattr(self.xrt, "xrt_info_device", None), key, None)
        if name is None:
            return ""
        try:
            return str(self.device.get_info(name))
        except RuntimeError:
            return ""
