"""From the JSON of ``xbutil examine`` (2021.1 on) and ``xrt-smi examine`` to the types of model.py.

XRT writes every number as a string, and 0 (with is_present "false") for a sensor that is not there.
"""

from __future__ import annotations

import re

from nearkv_drivers.cards.model import Card, Clock, Link, ListedCard, P2p, Temperature
from nearkv_drivers.fields import Fields, OutputError, load

ADDRESS = re.compile(r"(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")


def full_address(address: str) -> str:
    """``0000:65:00.1`` of ``65:00.1``. Raises ValueError for anything that is no PCI address."""
    if not ADDRESS.fullmatch(address):
        raise ValueError(f"{address!r} is no PCI address such as 0000:65:00.1")
    return (address if address.count(":") == 2 else f"0000:{address}").lower()


def cards(text: bytes | str, source: str) -> list[ListedCard]:
    """The cards of a host report; NPUs, which the same tool lists, are left out. Raises OutputError."""
    root = Fields(load(text, source), source)
    host = root.child("system").child("host")
    if not host.names():
        host = root.child("host")
    found = []
    for record in host.records("devices"):
        if (record.text("device_class") or "alveo").lower() != "alveo":
            continue
        address = record.text("bdf", "device_id")
        if address is None:
            raise OutputError(f"{record.source}: bdf is missing")
        shell = record.text("vbnv") or ""
        found.append(ListedCard(_address(address, record.source), shell, record.flag("is_ready") is not False))
    return found


def card(text: bytes | str, source: str) -> Card:
    """The one card of a device report (platform, thermal, electrical, pcie-info). Raises OutputError."""
    devices = Fields(load(text, source), source).records("devices")
    if len(devices) != 1:
        raise OutputError(f"{source}: devices lists {len(devices)} cards where one was asked for")
    device = devices[0]
    address = device.text("device_id", "bdf")
    if address is None:
        raise OutputError(f"{device.source}: device_id is missing")
    platform = next(iter(device.records("platforms")), Fields({}, f"{device.source} platforms"))
    status = platform.child("status")
    p2p = status.text("p2p_status") or ""
    return Card(
        address=_address(address, device.source),
        status=device.text("device_status") or "",
        shell=platform.child("static_region").text("vbnv", "name") or "",
        p2p=P2p.of(p2p),
        p2p_text=p2p,
        ddr_bytes=platform.child("off_chip_board_info").optional("ddr_size_bytes") or None,
        ddr_calibrated=status.flag("mig_calibrated"),
        temperatures=tuple(_temperature(record) for record in device.records("thermals")),
        watts=device.child("electrical").decimal("power_consumption_watts") or None,
        link=_link(device.child("pcie_info")),
        clocks=tuple(_clock(record) for record in _clocks(platform)),
    )


def _address(address: str, source: str) -> str:
    try:
        return full_address(address)
    except ValueError as error:
        raise OutputError(f"{source}: {error}") from None


def _temperature(record: Fields) -> Temperature:
    absent = record.flag("is_present") is False
    return Temperature(
        location=record.text("location_id") or "",
        description=record.text("description") or "",
        celsius=None if absent else record.optional("temp_C", limit=1000) or None,
    )


def _link(record: Fields) -> Link:
    return Link(
        generation=record.optional("link_speed_gbit_sec") or None,
        lanes=record.optional("express_lane_width_count") or None,
        best_generation=record.optional("expected_link_speed_gbit_sec") or None,
        best_lanes=record.optional("expected_express_lane_width_count") or None,
    )


def _clocks(platform: Fields) -> list[Fields]:
    """The clocks, which XRT nests once more than it needs to."""
    return platform.records("clocks") if platform.holds_list("clocks") else platform.child("clocks").records("clocks")


def _clock(record: Fields) -> Clock:
    return Clock(record.text("id") or "", record.text("description") or "", record.optional("freq_mhz") or None)
