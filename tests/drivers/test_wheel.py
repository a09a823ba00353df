"""A wheel of the project holds what an installed nearkv simulates, proves and checks."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from nearkv_drivers.hardware import hardware_root, rtl_sources
from nearkv_drivers.rtl_build import library

ROOT = Path(__file__).resolve().parents[2]
LOOK = """
import sys
import nearkv
from nearkv_drivers.hardware import hardware_root
from nearkv_drivers.rtl_build import library
from nearkv_drivers.selftest import SelfTest
from nearkv_drivers.urls import open_device
from nearkv_sim.formal import proofs
assert proofs()
with open_device(f"rtl:{sys.argv[1]}?ddr=64MiB") as device:
    failed = [step for step in SelfTest(device) if not step.passed]
    assert not failed, failed
print(hardware_root(), library(), nearkv.__file__)
"""


@pytest.fixture
def site(tmp_path):
    """The folder that a wheel of the checkout was unpacked in. What was compiled before is not compiled again."""
    pytest.importorskip("scikit_build_core", reason="a wheel needs scikit-build-core (`make build`)")
    wheel = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([*wheel, "-w", str(tmp_path / "wheel")], check=True)
    (built,) = (tmp_path / "wheel").glob("nearkv-*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(tmp_path / "site")
    return tmp_path / "site"


def test_a_wheel_simulates_the_checkouts_kernel(site, tmp_path):
    """A library is named after all that it is made of: the one of the checkout is found only if nothing is missing."""
    expected = library()
    # -S: an editable install of the checkout must not answer instead.
    paths = [str(site), *(path for path in sys.path if path.endswith("site-packages")), sysconfig.get_path("purelib")]
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOOK, str(tmp_path / "drive")], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    root, found, package = map(Path, done.stdout.split())
    assert root == site / "nearkv_drivers" / "hardware"
    assert package == site / "nearkv" / "__init__.py"
    assert found == expected
    for source in rtl_sources():
        assert (root / source.relative_to(hardware_root())).read_bytes() == source.read_bytes()
