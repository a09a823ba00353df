"""Builds the Verilated kernel as a shared library, once per version of the RTL and the tools.

The library lies in ``$NEARKV_CACHE`` (else ``~/.cache/nearkv``) under a name that hashes everything it is made of; a
lock lets one process build while others wait, and a rename puts it there whole. ``python -m nearkv_drivers.rtl_build``
builds it ahead of the first ``rtl:`` device.
"""

from __future__ import annotations

import fcntl
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from nearkv_drivers.device import DeviceError
from nearkv_drivers.hardware import hardware_root, rtl_sources
from nearkv_drivers.verilator import WARNINGS, Verilator, digest, find_verilator, need, run_tool

VERILATE = (
    "--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "--no-timing", "-DNEARKV_SLEEP",
    *WARNINGS, "--top-module", "nearkv_kernel",
)  # fmt: skip
"""One thread, no traces, no X, and clocks that stand still in parts with nothing to do: what simulates fastest."""

COMPILE = ("-fPIC", "-std=c++20", "-DVERILATOR=1", "-w", "-fno-plt", "-fno-semantic-interposition", "-march=native")

FAST, SLOW = "-O2", "-O1"
"""Optimisation of what runs every cycle, and of what runs once."""


def cache_folder() -> Path:
    """Where libraries lie."""
    return Path(os.environ.get("NEARKV_CACHE") or Path.home() / ".cache" / "nearkv") / "rtl"


def library() -> Path:
    """The shared library, built if it is not there yet (minutes). Raises DeviceError naming what is missing."""
    compiler = need(os.environ.get("CXX", "g++"), "install a C++20 compiler (Debian: apt install g++)")
    verilator = find_verilator()
    own = sorted((hardware_root() / "sim" / "verilated").glob("*"))
    key = digest([*rtl_sources(), *own], VERILATE, COMPILE, FAST, SLOW, verilator.version, compiler, _processor())
    folder = cache_folder()
    target = folder / f"kernel-{key}.so"
    if target.exists():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / f"kernel-{key}.lock"):
            if not target.exists():
                with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as work:
                    _build(Path(work), verilator, compiler).replace(target)
    except OSError as error:
        raise DeviceError(
            f"the simulated kernel cannot be kept in {folder} ({error.strerror}): "
            "set NEARKV_CACHE to a folder with room"
        ) from error
    return target


def _processor() -> str:
    """What ``-march=native`` means here: a cache folder may be shared by machines."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {flags}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(work: Path, verilator: Verilator, compiler: str) -> Path:
    """Verilate and compile in ``work``; returns the library."""
    run_tool([str(verilator.executable), *VERILATE, "--Mdir", ".", *map(str, rtl_sources())], work)
    include = verilator.include
    shim = hardware_root() / "sim" / "verilated"
    generated = sorted(work.glob("*.cpp"))
    slow = [file for file in generated if file.stem.endswith("Slow")] + [include / "verilated_threads.cpp"]
    fast = [file for file in generated if file not in slow] + [include / "verilated.cpp", shim / "device.cpp"]
    folders = [f"-I{folder}" for folder in (work, include, include / "vltstd", shim)]

    def compile_one(job: tuple[Path, str]) -> str:
        source, level = job
        run_tool([compiler, level, *COMPILE, *folders, "-c", str(source), "-o", f"{source.stem}.o"], work)
        return f"{source.stem}.o"

    jobs = [(file, FAST) for file in fast] + [(file, SLOW) for file in slow]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(compile_one, jobs))
    run_tool([compiler, "-shared", "-o", "kernel.so", *objects, "-lpthread"], work)
    return work / "kernel.so"


def main() -> int:
    """Build the library and print its path; returns the exit status."""
    try:
        print(library())
    except DeviceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
