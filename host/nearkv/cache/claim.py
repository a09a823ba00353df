"""Which cache a device serves: every cache hands out extents from drive address 0, two would overwrite each other."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from nearkv_drivers.device import Device, DeviceError

_LATEST: WeakKeyDictionary[Device, object] = WeakKeyDictionary()


class Claim:
    """One cache's hold of ``device``, taken with its first tokens; a later cache's takes it away."""

    def __init__(self, device: Device) -> None:
        self._device, self._mark = device, object()  # the mark alone is kept: a claim would keep its device alive

    def take(self) -> None:
        """From now on the device is this cache's."""
        _LATEST[self._device] = self._mark

    def check(self) -> None:
        """Raise DeviceError where another cache has begun on the device since."""
        if _LATEST.get(self._device) is not self._mark:
            raise DeviceError(
                f"another cache has written to {self._device.url} since: a device serves one cache at a time, "
                "open another one for each"
            )
