"""Device URLs: ``scheme:path?option=value&…``, and which module opens which scheme."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from nearkv_drivers.device import Device, DeviceError


@dataclass(frozen=True)
class Scheme:
    """``module`` has ``open_url(DeviceUrl) -> Device``; ``extra`` is the optional install that it needs, if any."""

    module: str
    extra: str | None = None


SCHEMES: dict[str, Scheme] = {
    "emulated": Scheme("nearkv_drivers.emulated"),
    "rtl": Scheme("nearkv_drivers.rtl", "sim"),
    "card": Scheme("nearkv_drivers.cards.device"),
    "pynq": Scheme("nearkv_drivers.boards.device", "pynq"),
}
"""Known schemes. Modules are imported when a URL of theirs is opened, never before."""

_UNITS = {"": 1, "B": 1, **{f"{p}iB": 1 << 10 * (i + 1) for i, p in enumerate("KMGT")}}
_UNITS |= {f"{p}B": 1000 ** (i + 1) for i, p in enumerate("kMGT")}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


@dataclass(frozen=True)
class DeviceUrl:
    """A parsed URL. ``path`` and option values have their percent-escapes resolved."""

    text: str
    scheme: str
    path: str
    options: Mapping[str, str]

    def only(self, *names: str) -> None:
        """Raise DeviceError for an option that is not one of ``names``."""
        for option in self.options:
            if option not in names:
                known = ", ".join(names) if names else "none"
                raise DeviceError(f"{self.scheme}: has no option '{option}' (known: {known})")

    def size(self, name: str, default: int) -> int:
        """Option ``name`` as a size in bytes, such as 4GiB or 512MiB."""
        text = self.options.get(name)
        return default if text is None else parse_size(text, name)

    def rate(self, name: str) -> float | None:
        """Option ``name`` as bytes per second, such as 1.4GiB/s; None where it is not given."""
        text = self.options.get(name)
        return None if text is None else parse_rate(text, name)


def parse_size(text: str, name: str = "size") -> int:
    """Bytes of a size such as ``4GiB``, ``1.5MiB``, ``512MB`` or ``65536``; DeviceError names the option ``name``."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2] not in _UNITS:
        units = ", ".join(unit for unit in _UNITS if unit)
        raise DeviceError(f"{name}={text} is not a size: give a number and a unit ({units})")
    return round(float(match[1]) * _UNITS[match[2]])


def parse_rate(text: str, name: str = "rate") -> float:
    """Bytes per second of a rate such as ``1.4GiB/s`` or ``300MB/s``; DeviceError names the option ``name``."""
    size, slash, per = text.strip().partition("/")
    match = _SIZE.fullmatch(size)
    if match is None or not match[2] or match[2] not in _UNITS or slash + per != "/s" or not float(match[1]):
        raise DeviceError(f"{name}={text} is not a rate: give bytes per second, such as 1.4GiB/s or 300MB/s")
    return float(match[1]) * _UNITS[match[2]]


def parse_url(text: str) -> DeviceUrl:
    """Take a device URL apart; raises DeviceError for one without a scheme, and for an option given twice."""
    parts = urlsplit(text)
    if not parts.scheme:
        raise DeviceError(
            f"'{text}' is not a device URL: write scheme:path, for example emulated:/data/kv.drive?ddr=4GiB"
        )
    if parts.fragment or parts.netloc:
        raise DeviceError(f"'{text}': write scheme:path with '#' as %23 and without '//'")
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in options:
            raise DeviceError(f"'{text}' gives the option '{name}' twice")
        options[name] = value
    return DeviceUrl(text, parts.scheme, unquote(parts.path), options)


def open_device(url: str) -> Device:
    """Open the device that ``url`` names. Raises DeviceError naming the URL's fault or the missing extra."""
    parsed = parse_url(url)
    scheme = SCHEMES.get(parsed.scheme)
    if scheme is None:
        raise DeviceError(f"unknown device scheme '{parsed.scheme}:' (known: {', '.join(f'{s}:' for s in SCHEMES)})")
    try:
        module = importlib.import_module(scheme.module)
    except ImportError as error:
        remedy = f"pip install 'nearkv[{scheme.extra}]'" if scheme.extra else "reinstall nearkv"
        raise DeviceError(f"{parsed.scheme}: devices need {error.name or scheme.module}: {remedy}") from error
    device: Device = module.open_url(parsed)
    return device
