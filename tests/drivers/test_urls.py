"""Device URLs: sizes, options and schemes, and the sentence for each that is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkv_drivers
from nearkv_drivers.device import Device, DeviceError
from nearkv_drivers.rtl import bytes_per_second
from nearkv_drivers.urls import SCHEMES, Scheme, parse_rate, parse_size, parse_url


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 4 << 30), ("1.5MiB", 3 << 19), ("512MB", 512_000_000), ("65536", 65536), ("1 kB", 1000), ("7B", 7)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@given(st.integers(0, 1 << 40))
def test_a_size_in_bytes_is_itself(size):
    assert parse_size(str(size)) == size
    assert parse_size(f"{size}KiB") == size << 10


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "4 Gb", "1e9", "4GiB and more", "nan"])
def test_what_is_no_size_is_named(text):
    with pytest.raises(DeviceError, match=r"ddr=.* is not a size"):
        parse_size(text, "ddr")


@pytest.mark.parametrize(("text", "rate"), [("1.5GiB/s", 1.5 * (1 << 30)), ("300MB/s", 3e8), (" 7 B/s ", 7)])
def test_rates(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["19.2GB/s", "19.2GB", "19200000000"])
def test_a_simulated_bandwidth_may_name_its_second(text):
    assert bytes_per_second(text) == 19_200_000_000


@pytest.mark.parametrize("scheme", ["emulated", "rtl"])
@pytest.mark.parametrize("size", ["9999TiB", "99999999999TiB"])
def test_more_device_memory_than_the_machine_gives_is_refused(tmp_path, scheme, size):
    with pytest.raises(DeviceError, match=r"does not give [\d,]+ bytes of memory: ask for less \(ddr=\)"):
        nearkv_drivers.open(f"{scheme}:{tmp_path}/kv.drive?ddr={size}")
    assert not list(tmp_path.iterdir())


def test_a_url_is_taken_apart():
    url = parse_url("emulated:/data/my%20kv%23.drive?ddr=4GiB&x=%26")
    assert (url.scheme, url.path, url.options) == ("emulated", "/data/my kv#.drive", {"ddr": "4GiB", "x": "&"})
    assert parse_url("emulated:here.drive").path == "here.drive"


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("/data/kv.drive", "is not a device URL: write scheme:path"),
        ("nvme:/data/kv.drive", r"unknown device scheme 'nvme:' \(known: .*emulated:"),
        ("emulated:kv.drive?ddr=1GiB&ddr=2GiB", "gives the option 'ddr' twice"),
        ("emulated:kv.drive?dram=4GiB", r"emulated: has no option 'dram' \(known: ddr, score, link\)"),
        ("emulated:kv.drive?ddr=lots", "ddr=lots is not a size"),
        ("emulated:kv.drive?ddr=4KiB", "4096 bytes is too small"),
        ("emulated:kv.drive?score=1.4GiB", "score=1.4GiB is not a rate: give bytes per second, such as 1.4GiB/s"),
        ("emulated:kv.drive?link=2/s", "link=2/s is not a rate"),
        ("emulated:kv.drive?link=0GiB/s", "link=0GiB/s is not a rate"),
        ("emulated:", "names no file"),
        ("emulated://host/kv.drive", "without '//'"),
        ("emulated:kv#1.drive", "'#' as %23"),
    ],
)
def test_bad_urls_are_refused_before_anything_is_created(tmp_path, monkeypatch, url, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeviceError, match=sentence):
        nearkv_drivers.open(url)
    assert not list(tmp_path.iterdir())


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(SCHEMES, "absent", Scheme("nearkv_drivers.no_such_module", "fpga"))
    with pytest.raises(DeviceError, match=r"absent: devices need .*no_such_module: pip install 'nearkv\[fpga\]'"):
        nearkv_drivers.open("absent:0")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_names_a_module(scheme):
    assert SCHEMES[scheme].module.startswith("nearkv_drivers.")


def test_the_emulated_drive_is_a_device(tmp_path):
    with nearkv_drivers.open(f"emulated:{tmp_path}/kv.drive?ddr=64MiB") as device:
        assert isinstance(device, Device)
        assert device.url.endswith("ddr=64MiB")
        assert device.capabilities.device_dram_bytes == 64 << 20
        assert device.capabilities.simulated
