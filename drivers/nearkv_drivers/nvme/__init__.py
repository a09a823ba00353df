"""NVMe administration: typed and tolerant over nvme-cli's versions, in bytes and degrees Celsius.

``NvmeCli`` lists drives and reads identify data, SMART, error and firmware logs, and reformats a namespace when that is
confirmed by name. ``PynvmeDrive`` reads the same pages through pynvme where a lab uses it. How-to: docs/nvme.md.
"""

from nearkv_drivers.nvme.cli import NvmeCli
from nearkv_drivers.nvme.errors import NvmeError, NvmeNotFoundError, NvmePermissionError
from nearkv_drivers.nvme.model import (
    Controller,
    ErrorEntry,
    FirmwareLog,
    Health,
    LbaFormat,
    ListedNamespace,
    Namespace,
    SmartLog,
)
from nearkv_drivers.nvme.spdk import PynvmeDrive

__all__ = [
    "Controller",
    "ErrorEntry",
    "FirmwareLog",
    "Health",
    "LbaFormat",
    "ListedNamespace",
    "Namespace",
    "NvmeCli",
    "NvmeError",
    "NvmeNotFoundError",
    "NvmePermissionError",
    "PynvmeDrive",
    "SmartLog",
]
