"""A wheel of the project holds what an installed nearkv simulates, proves and checks."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOOK = """
from nearkv_drivers.hardware import hardware_root, kernel_interface, rtl_sources
from nearkv_drivers.rtl_build import library
from nearkv_sim.formal import proofs
print(hardware_root())
assert all(path.is_file() for path in rtl_sources()), rtl_sources()
assert kernel_interface()["limits"] and proofs()
print(library())
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_wheel_builds_its_own_simulated_kernel(tmp_path):
    pytest.importorskip("scikit_build_core", reason="a wheel needs scikit-build-core (`make build`)")
    wheel = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--no-build-isolation", "--quiet"]
    options = ["-w", str(tmp_path / "wheel"), f"--config-settings=build-dir={tmp_path / 'build'}"]
    subprocess.run([*wheel, *options], check=True)
    (built,) = (tmp_path / "wheel").glob("nearkv-*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(built).extractall(site)
    # -S: an editable install of the checkout must not answer instead.
    paths = [str(site), *(path for path in sys.path if path.endswith("site-packages")), sysconfig.get_path("purelib")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NEARKV_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOOK], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    root, library = map(Path, done.stdout.split())
    assert root == site / "nearkv_drivers" / "hardware"
    assert library.is_relative_to(tmp_path / "cache")
