"""What can go wrong with a drive's administration; every message names the thing and the remedy."""

from __future__ import annotations

from nearkv_drivers.device import DeviceError


class NvmeError(DeviceError):
    """An NVMe administration command failed or was refused."""


class NvmeNotFoundError(NvmeError):
    """The tool or the drive is not there."""


class NvmePermissionError(NvmeError):
    """The caller may not open the device node."""
