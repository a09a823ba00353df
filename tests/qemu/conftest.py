"""The guest that the tests of this folder share."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nearkv.contract import encode_query, encode_segment
from nearkv_drivers.wire import Query, Segment

from . import fetch, initramfs, python_disk
from .guest import Guest

SERIALS = ("NEARKV0001", "NEARKV0002")
DRIVE_BYTES = 256 << 20
TOP_K = 20


@pytest.fixture(scope="session")
def packages() -> Path:
    """Where fetch.py unpacked the guest's packages; skips the test where they are missing."""
    missing = []
    if not all(map(shutil.which, ("qemu-system-x86_64", "mke2fs"))):
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
def query(segment: Segment) -> Query:
    """Four query heads for that segment."""
    return encode_query(np.random.default_rng(8).standard_normal((4, 64)), segment, 0.125)


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
def guest(
    packages: Path, suites: list[str], store: bytes, segment: Segment, query: Query, images: list[Path]
) -> Iterator[Guest]:
    """One booted guest: two empty NVMe drives, the store file, a score request, and a disk with Python."""
    kernel = next((packages / fetch.NATIVE / "boot").glob("vmlinuz-*"))
    request = io.BytesIO()
    np.savez(request, blocks=segment.blocks, q=query.q, c=query.c[0], r=query.r[0], b=query.b[0], k=TOP_K)
    script = (Path(__file__).parent / "guest_store.py").read_bytes()
    files = {"store": store, "request.npz": request.getvalue(), "guest_store.py": script}
    image = initramfs.build(packages, suites, files)
    with Guest(kernel, image, list(zip(SERIALS, images, strict=True)), python_disk.build(packages)) as running:
        yield running
        assert running.power_off() == 0
