"""One Device interface to computational drives, and the devices behind it. Start with :func:`open`."""

from nearkv_drivers.device import (
    Capabilities,
    Device,
    DeviceError,
    Mode,
    ReadHandle,
    Run,
    ScoreHandle,
    ScoreRequest,
    ScoreResult,
    StorageError,
    Telemetry,
)
from nearkv_drivers.memory import address_of, aligned_buffer
from nearkv_drivers.urls import open_device as open

__all__ = [
    "Capabilities",
    "Device",
    "DeviceError",
    "Mode",
    "ReadHandle",
    "Run",
    "ScoreHandle",
    "ScoreRequest",
    "ScoreResult",
    "StorageError",
    "Telemetry",
    "address_of",
    "aligned_buffer",
    "open",
]
