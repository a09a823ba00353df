"""The guest that the tests of this folder share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nearkv.contract import encode_segment
from nearkv_drivers.wire import Segment

from . import fetch, initramfs
from .guest import Guest

SERIALS = ("NEARKV0001", "NEARKV0002")
DRIVE_BYTES = 64 << 20


@pytest.fixture(scope="session")
def packages() -> Path:
    """Where fetch.py unpacked the guest's packages; skips the test where they are missing."""
    missing = []
    if shutil.which("qemu-system-x86_64") is None:
        missing += fetch.packages("install")
    if not (fetch.BUILD / fetch.NATIVE / ".packages").exists():
        missing += fetch.packages("unpack")
    if missing:
        pytest.skip(f"Debian packages missing: {', '.join(missing)}; get them with: python3 tests/qemu/fetch.py")
    return fetch.BUILD


@pytest.fixture(scope="session")
def segment() -> Segment:
    """Real score blocks, about 1.1 MB, as a store would hold them."""
    keys = np.random.default_rng(7).standard_normal((1024 * 32, 64), dtype=np.float32)
    return encode_segment(keys, 4, stream=3)


@pytest.fixture(scope="session")
def store(segment: Segment) -> bytes:
    """A store file: the score blocks, padded to whole pages."""
    content = segment.blocks.tobytes()
    return content + bytes(-len(content) % 4096)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two empty drives."""
    folder = tmp_path_factory.mktemp("drives")
    for serial in SERIALS:
        with (folder / serial).open("wb") as image:
            image.truncate(DRIVE_BYTES)
    return [folder / serial for serial in SERIALS]


@pytest.fixture(scope="session")
def suites(packages: Path) -> list[str]:
    """The releases whose nvme-cli the guest holds: this machine's and those that fetch.py was asked for."""
    return [suite for suite in ("native", "bullseye", "trixie", "sid") if (packages / suite / ".packages").exists()]


@pytest.fixture(scope="session")
def guest(packages: Path, suites: list[str], store: bytes, images: list[Path]) -> Iterator[Guest]:
    """One booted guest with two empty NVMe drives and the store file in /store."""
    kernel = next((packages / fetch.NATIVE / "boot").glob("vmlinuz-*"))
    image = initramfs.build(packages, suites, {"store": store})
    with Guest(kernel, image, list(zip(SERIALS, images, strict=True))) as running:
        yield running
        assert running.power_off() == 0
