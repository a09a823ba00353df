"""Packaging: kernel.xml says what the register map says, and the Tcl scripts do what the tools expect."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
REGISTERS = json.loads((ROOT / "fpga/registers.json").read_text())

needs_tclsh = pytest.mark.skipif(shutil.which("tclsh") is None, reason="tclsh is not installed")


def _kernel_xml() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernel_xml", ROOT / "fpga/package/kernel_xml.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_kernel_xml(tmp_path: Path) -> None:
    path = tmp_path / "kernel.xml"
    _kernel_xml().kernel_xml(REGISTERS).write(path)
    kernel = ET.parse(path).getroot().find("kernel")
    assert kernel is not None
    assert kernel.get("name") == REGISTERS["kernel"]
    assert kernel.get("hwControlProtocol") == REGISTERS["control_protocol"]
    ports = {port.get("name"): port for port in kernel.iter("port")}
    assert set(ports) == set(REGISTERS["ports"])
    for argument, node in zip(REGISTERS["arguments"], kernel.iter("arg"), strict=True):
        assert node.get("name") == argument["name"]
        assert node.get("id") == str(argument["id"])
        assert int(node.get("offset", ""), 16) == argument["offset"]
        assert int(node.get("size", ""), 16) == argument["size"]
        port = ports[node.get("port")]
        assert (port.get("mode") == "master") == (node.get("addressQualifier") == "1")
        assert port.get("dataWidth") == str(REGISTERS["ports"][node.get("port")]["data_width"])


def _run_tcl(script: Path, arguments: list[str], folder: Path) -> list[str]:
    """Run a vendor script in plain tclsh, where every unknown command is recorded and returns itself."""
    driver = folder / "driver.tcl"
    words = " ".join(f"{{{a}}}" for a in arguments)
    driver.write_text(
        "proc unknown {args} {puts $args; return [lindex $args 0]}\n"
        f"set argv [list {words}]\nset argc [llength $argv]\nsource {{{script}}}\n"
    )
    done = subprocess.run(["tclsh", str(driver)], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.splitlines()


@needs_tclsh
def test_package_xo(tmp_path: Path) -> None:
    xo = tmp_path / "nearkv_kernel.xo"
    calls = _run_tcl(
        ROOT / "fpga/package/package_xo.tcl",
        [str(xo), "nearkv_kernel", "some-part", "kernel.xml", "a.sv", "nearkv_kernel.v"],
        tmp_path,
    )
    assert calls[0].startswith("create_project -force -part some-part")
    assert "add_files -norecurse {a.sv nearkv_kernel.v}" in calls
    associated = {c.split()[2] for c in calls if c.startswith("ipx::associate_bus_interfaces")}
    assert associated == set(REGISTERS["ports"])
    assert calls[-1].startswith(f"package_xo -xo_path {xo} -kernel_name nearkv_kernel -ip_directory ")
    assert calls[-1].endswith("-kernel_xml kernel.xml")
    assert [c.split()[0] for c in calls].index("ipx::save_core") < len(calls) - 1


@needs_tclsh
def test_package_xo_names_a_missing_interface(tmp_path: Path) -> None:
    driver = tmp_path / "driver.tcl"
    driver.write_text(
        "proc unknown {args} {return [lindex $args 0]}\n"
        "namespace eval ipx {proc get_bus_interfaces {name args} {"
        'expr {$name eq "m_axi_keys" ? "" : $name}}}\n'
        f"set argv {{a.xo top part kernel.xml a.sv}}\nsource {{{ROOT / 'fpga/package/package_xo.tcl'}}}\n"
    )
    done = subprocess.run(["tclsh", str(driver)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "top has no interface m_axi_keys" in done.stderr


@needs_tclsh
def test_vitis_hls(tmp_path: Path) -> None:
    calls = _run_tcl(ROOT / "hls/vitis_hls.tcl", [str(ROOT), "some-part", "3.333"], tmp_path)
    assert f"set_top {REGISTERS['kernel']}" in calls
    assert "set_part some-part" in calls
    files = [
        word for c in calls for word in c.replace("{", " ").replace("}", " ").split() if word.startswith(str(ROOT))
    ]
    assert any(f.endswith(".bin") for f in files)
    assert [f for f in files if not Path(f).exists()] == []
    steps = [c.split()[0] for c in calls]
    assert steps.index("csim_design") < steps.index("csynth_design") < steps.index("cosim_design")


@needs_tclsh
@pytest.mark.parametrize("script", ["fpga/package/package_xo.tcl", "hls/vitis_hls.tcl"])
def test_scripts_ask_for_arguments(script: str, tmp_path: Path) -> None:
    done = subprocess.run(["tclsh", str(ROOT / script)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("usage:")
