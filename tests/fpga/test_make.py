"""``make -C fpga``: every command of every flow, by dry run, and one clear sentence for what is missing."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLATFORM = "xilinx_u2_gen3x4_xdma_gc_2_202110_1"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def _make(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(shutil.which("make")), "-s", "-C", str(ROOT / "fpga"), *arguments]
    kept = {k: v for k, v in os.environ.items() if k not in ("PLATFORM_REPO_PATHS", "XILINX_VITIS", "MAKEFLAGS")}
    environment = {**kept, "PATH": path or kept["PATH"]}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def _commands(*arguments: str) -> list[list[str]]:
    done = _make(*arguments, "DRY_RUN=1")
    assert done.returncode == 0, done.stderr
    return [shlex.split(line) for line in done.stdout.splitlines()]


def _option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


FLOWS = [
    (kernel, target)
    for kernel, target in itertools.product(("rtl", "hls"), ("sw_emu", "hw_emu", "hw"))
    if (kernel, target) != ("rtl", "sw_emu")
]


@pytest.mark.parametrize(("kernel", "target"), FLOWS)
def test_link_uses_what_compile_made(kernel: str, target: str) -> None:
    commands = _commands("xclbin", f"KERNEL={kernel}", f"TARGET={target}")
    link = next(c for c in commands if "--link" in c)
    made = next(c for c in commands if ("--compile" if kernel == "hls" else "vivado") in c)
    xo = _option(made, "-o" if kernel == "hls" else "-tclargs")
    assert link[-1] == xo
    assert xo.endswith(f"{kernel}.{target}/nearkv_kernel.xo")
    assert _option(link, "--target") == target
    assert _option(link, "--platform") == PLATFORM
    assert Path(_option(link, "--config")).is_file()
    assert any("emconfigutil" in c for c in commands) == (target != "hw")


def test_rtl_is_packaged_whole_and_packages_first() -> None:
    (package,) = (c for c in _commands("xo", "KERNEL=rtl") if "vivado" in c)
    sources = [Path(word) for word in package if Path(word).parent.name == "rtl"]
    assert set(sources) == set((ROOT / "fpga/rtl").iterdir())
    assert sources[0].name == "nearkv_pkg.sv"


def test_frequency_reaches_synthesis_and_link() -> None:
    compiled, link = (c for c in _commands("xclbin", "KERNEL=hls", "FREQUENCY=250") if "v++" in c)
    assert _option(compiled, "--hls.clock") == "250000000:nearkv_kernel"
    assert _option(link, "--kernel_frequency") == "250"
    (synthesis,) = (c for c in _commands("csynth", "FREQUENCY=250") if "vitis_hls" in c)
    assert synthesis[-1] == "4.000"


def test_every_source_that_is_named_exists() -> None:
    for arguments in (["xclbin", "KERNEL=hls"], ["csynth"], ["xclbin", "KERNEL=rtl"]):
        words = [word for command in _commands(*arguments) for word in command]
        sources = [Path(w) for w in words if re.search(r"\.(cpp|tcl|py|sv|v|cfg|json)$", w)]
        assert sources
        assert [s for s in sources if not s.is_file()] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["xo", "KERNEL=vhdl"], 'KERNEL must be rtl or hls, not "vhdl"'),
        (["xo", "TARGET=board"], 'TARGET must be hw, hw_emu or sw_emu, not "board"'),
        (["xo", "KERNEL=rtl", "TARGET=sw_emu"], "use KERNEL=hls, or TARGET=hw_emu"),
        (["xclbin", "CONFIG=nowhere.cfg"], "CONFIG=nowhere.cfg does not exist"),
    ],
)
def test_wrong_arguments(arguments: list[str], sentence: str) -> None:
    done = _make(*arguments)
    assert done.returncode != 0
    assert sentence in done.stderr


@pytest.mark.parametrize(
    ("arguments", "tool"), [(["xo", "KERNEL=hls"], "v++"), (["xclbin", "KERNEL=hls"], "v++"), (["csynth"], "vitis_hls")]
)
def test_absent_tool_is_named(arguments: list[str], tool: str, tmp_path: Path) -> None:
    done = _make(*arguments, f"BUILD={tmp_path}", path=_without_vendor_tools(tmp_path))
    assert done.returncode != 0
    (sentence,) = (line for line in done.stderr.splitlines() if line.startswith("nearkv:"))
    assert sentence.startswith(f"nearkv: {tool} is not on PATH: source the settings64.sh of Vitis")


def test_absent_platform_is_named(tmp_path: Path) -> None:
    path = _without_vendor_tools(tmp_path)
    compiler = tmp_path / "tools" / "v++"
    compiler.write_text("#!/bin/sh\nexit 0\n")
    compiler.chmod(0o755)
    done = _make("xo", "KERNEL=hls", "PLATFORM=no_such_platform", f"BUILD={tmp_path}", path=path)
    assert done.returncode != 0
    assert "nearkv: platform no_such_platform is not installed" in done.stderr


def test_installed_platform_is_found(tmp_path: Path) -> None:
    path = _without_vendor_tools(tmp_path)
    log = tmp_path / "log"
    compiler = tmp_path / "tools" / "v++"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    compiler.chmod(0o755)
    platform = tmp_path / "some_card.xpfm"
    platform.touch()
    done = _make("xo", "KERNEL=hls", f"PLATFORM={platform}", f"BUILD={tmp_path}", path=path)
    assert done.returncode == 0, done.stderr
    assert f"--platform {platform}" in log.read_text()


def _without_vendor_tools(folder: Path) -> str:
    """A PATH with the few programs the makefile itself needs."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("sh", "printf", "echo", "mkdir", "python3"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    return str(tools)
