"""Telemetry that several threads add to."""

from __future__ import annotations

import threading
from dataclasses import fields

from nearkv_drivers.device import Telemetry

_COUNTERS = frozenset(field.name for field in fields(Telemetry) if field.name not in ("extra", "device_dram_used"))


class Counters:
    """The counters of one device since it was opened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values = dict.fromkeys(_COUNTERS, 0)

    def add(self, **amounts: int) -> None:
        """Add to counters by their name in Telemetry; KeyError for any other name."""
        with self._lock:
            for name, amount in amounts.items():
                self._values[name] += amount

    def snapshot(self, device_dram_used: int) -> Telemetry:
        """The counters now, beside the device DRAM in use (bytes)."""
        with self._lock:
            telemetry = Telemetry(device_dram_used=device_dram_used)
            for name, value in self._values.items():
                setattr(telemetry, name, value)
            return telemetry
