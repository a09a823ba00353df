"""``nearkv sim check-ports`` passes our kernel and one shaped like Vitis HLS's, and names each planted fault."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyverilog", reason="check-ports needs pyverilog (nearkv[sim])")
from nearkv.errors import UnsupportedError
from nearkv_drivers.hardware import hardware_root
from nearkv_sim.check_ports import check
from nearkv_sim.check_ports_verilog import Library, VerilogError
from nearkv_sim.cli import app

OURS = hardware_root() / "fpga" / "rtl" / "nearkv_kernel.v"
VITIS = Path(__file__).parent / "vitis_like"
"""Our imitation of the structure of Vitis HLS's output; no vendor tool made it."""
TOP, CONTROL = "nearkv_kernel.v", "nearkv_kernel_control_s_axi.v"


def differences(*paths: Path) -> list[str]:
    return [str(difference) for difference in check(paths).differences]


@pytest.fixture
def vitis(tmp_path):
    """A copy of the imitation, and a function that changes a file of it: each pattern once, by regular expression."""
    folder = Path(shutil.copytree(VITIS, tmp_path / "verilog"))

    def change(file: str, *replacements: tuple[str, str]) -> Path:
        text = (folder / file).read_text()
        for pattern, replacement in replacements:
            text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
            assert count, f"{pattern} is not in {file}"
        (folder / file).write_text(text)
        return folder / TOP

    return change


def test_ours_passes_with_registers_found_two_levels_down():
    report = check([OURS])
    assert report.passed, report.lines()
    assert report.not_checked == []
    assert report.lines() == [
        f"nearkv_kernel ({OURS}): 76 ports, 3 burst parameters, 14 registers in nkv_control: as the driver wants it"
    ]


@pytest.mark.parametrize(
    "paths", [[VITIS / TOP], [VITIS / TOP, VITIS / CONTROL], [VITIS]], ids=["top", "both", "folder"]
)
def test_a_kernel_shaped_like_vitis_hls_passes(paths):
    report = check(paths)
    assert report.passed, report.lines()
    assert report.not_checked == []
    assert report.checked == ["110 ports", "4 burst parameters", "11 registers in nearkv_kernel_control_s_axi"]


def port(name: str) -> tuple[str, str]:
    """Replacement that removes a port from the list and its declaration."""
    return rf"^ *(?:input|output)[^;]*\b{name};\n|^ *{name},?\n", ""


def register(name: str, offset: str) -> tuple[str, str]:
    """Replacement that moves a register."""
    return rf"(ADDR_{name}\s*= 6'h)..", rf"\g<1>{offset}"


FAULTS = {
    "missing port": (
        TOP, [port("m_axi_keys_RLAST")], ["port m_axi_keys_rlast: expected input, found none"],
    ),
    "missing interrupt": (
        TOP, [(r"^ *interrupt\n", "        ap_local_block\n"), ("output   interrupt", "output   ap_local_block")],
        ["port interrupt: expected output, found none", "port ap_local_block: expected none, found output"],
    ),
    "extra port": (
        TOP, [(r"^ *ap_rst_n,\n", "        ap_rst_n,\n        ap_ce,\n"),
              (r"^(input   ap_rst_n;)", r"\1\ninput   ap_ce;")],
        ["port ap_ce: expected none, found input"],
    ),
    "extra interface": (
        TOP, [(r"^ *ap_rst_n,\n", "        ap_rst_n,\n        m_axi_aux_ARVALID,\n        m_axi_aux_ARREADY,\n"),
              (r"^(input   ap_rst_n;)", r"\1\noutput m_axi_aux_ARVALID;\ninput m_axi_aux_ARREADY;")],
        ["interface m_axi_aux: expected none, found 2 ports"],
    ),
    "wrong direction": (
        TOP, [(r"^input( *)m_axi_gmem_AWREADY", r"output\1m_axi_gmem_AWREADY")],
        ["direction of port m_axi_gmem_AWREADY: expected input, found output"],
    ),
    "wrong width of one port": (
        TOP, [(r"\[7:0\] m_axi_keys_ARLEN", "[3:0] m_axi_keys_ARLEN")],
        ["width of port m_axi_keys_ARLEN: expected 8, found 4"],
    ),
    "wrong data width, named once": (
        TOP, [("C_M_AXI_GMEM_DATA_WIDTH = 512", "C_M_AXI_GMEM_DATA_WIDTH = 256"),
              (r"GMEM_WSTRB_WIDTH = \(512 / 8\)", "GMEM_WSTRB_WIDTH = (256 / 8)")],
        ["C_M_AXI_GMEM_DATA_WIDTH: expected 512, found 256"],
    ),
    "wrong address width": (
        TOP, [("C_M_AXI_KEYS_ADDR_WIDTH = 64", "C_M_AXI_KEYS_ADDR_WIDTH = 32")],
        ["C_M_AXI_KEYS_ADDR_WIDTH: expected 64, found 32"],
    ),
    "control addresses that do not reach the last argument": (
        TOP, [("C_S_AXI_CONTROL_ADDR_WIDTH = 6", "C_S_AXI_CONTROL_ADDR_WIDTH = 5")],
        ["C_S_AXI_CONTROL_ADDR_WIDTH: expected 6 to 12, found 5"],
    ),
    "wrong ID width": (
        TOP, [("C_M_AXI_GMEM_ID_WIDTH = 1", "C_M_AXI_GMEM_ID_WIDTH = 4")],
        ["C_M_AXI_GMEM_ID_WIDTH: expected 1, found 4"],
    ),
    "write strobes of the wrong width": (
        TOP, [(r"KEYS_WSTRB_WIDTH = \(512 / 8\)", "KEYS_WSTRB_WIDTH = (256 / 8)")],
        ["width of port m_axi_keys_WSTRB: expected 64, found 32"],
    ),
    "short read bursts": (
        TOP, [(r"(CONSERVATIVE\( 1 \),\n *\.USER_MAXREQS\( 69 \),\n *\.MAX_READ_BURST_LENGTH\( )64( \),\n"
               r" *\.MAX_WRITE_BURST_LENGTH\( 16)", r"\g<1>16\2")],
        ["MAX_READ_BURST_LENGTH of m_axi_keys (keys_m_axi_U): expected 64, found 16"],
    ),
    "write bursts longer than a page": (
        TOP, [(r"MAX_WRITE_BURST_LENGTH\( 64", "MAX_WRITE_BURST_LENGTH( 256")],
        ["MAX_WRITE_BURST_LENGTH of m_axi_gmem (gmem_m_axi_U): expected at most 64, found 256"],
    ),
    "too few reads outstanding": (
        TOP, [(r"NUM_READ_OUTSTANDING\( 32", "NUM_READ_OUTSTANDING( 2")],
        ["NUM_READ_OUTSTANDING of m_axi_keys (keys_m_axi_U): expected at least 8, found 2"],
    ),
    "reset of the other polarity": (
        TOP, [(r"\bap_rst_n\b", "ap_rst")], ["reset: expected input ap_rst_n (active low), found input ap_rst"],
    ),
    "another name": (
        TOP, [(r"^module nearkv_kernel\b", "module score_kernel")],
        ["top module: expected nearkv_kernel, found score_kernel"],
    ),
    "default bundle names": (
        TOP, [("m_axi_keys_", "m_axi_gmem0_")],
        ["interface m_axi_keys: expected its ports, found none (m_axi_gmem0)",
         "interface m_axi_gmem0: expected none, found 45 ports"],
    ),
    "swapped registers": (
        CONTROL, [register("COMMANDS_DATA_0", "24"), register("COMMANDS_DATA_1", "28"),
                  register("KEYS_DATA_0", "18"), register("KEYS_DATA_1", "1c")],
        ["register commands, low word: expected 0x18, found 0x24",
         "register commands, high word: expected 0x1c, found 0x28",
         "register keys, low word: expected 0x24, found 0x18", "register keys, high word: expected 0x28, found 0x1c"],
    ),
    "missing register": (
        CONTROL, [(r"^ *ADDR_REQUESTS_DATA_0 .*\n", "")], ["register requests: expected 0x10, found none"],
    ),
    "a pointer of one word": (
        CONTROL, [(r"^ *ADDR_RESULTS_DATA_1 .*\n", "")], ["register results, high word: expected 0x34, found none"],
    ),
    "one argument more": (
        CONTROL, [(r"^( *ADDR_RESULTS_CTRL .*\n)", r"\1    ADDR_THRESHOLD_DATA_0 = 6'h3c,\n")],
        ["register threshold: expected none, found 0x3c"],
    ),
    "control register elsewhere": (
        CONTROL, [register("AP_CTRL", "20")], ["register control: expected 0x00, found 0x20"],
    ),
    "interrupt registers swapped": (
        CONTROL, [register("IER", "0c"), register("ISR", "08")],
        ["register ier: expected 0x08, found 0x0c", "register isr: expected 0x0c, found 0x08"],
    ),
    "ap_ctrl_hs": (
        CONTROL, [(r"^.*ap_continue,\n", "")],
        ["block control: expected ap_ctrl_chain, found ap_ctrl_hs (no ap_continue in nearkv_kernel_control_s_axi)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named_and_nothing_else(vitis, name):
    file, replacements, expected = FAULTS[name]
    assert differences(vitis(file, *replacements)) == expected


OUR_FAULTS = [
    ("nearkv_kernel.v", "    output wire          interrupt,\n", "", ["port interrupt: expected output, found none"]),
    ("nearkv_kernel.v", "input  wire [511:0]  m_axi_keys_rdata", "input  wire [255:0]  m_axi_keys_rdata",
     ["width of port m_axi_keys_rdata: expected 512, found 256"]),
    ("nkv_control.sv", "KEYS = 12'h024", "KEYS = 12'h020", ["register keys, low word: expected 0x24, found 0x20"]),
    ("nkv_control.sv", "STATUS = 12'h040", "STATUS = 12'h060", ["register status: expected 0x40, found 0x60"]),
    ("nkv_axi_reader.sv", "MAX_BURST  = 64", "MAX_BURST  = 32",
     ["MAX_BURST of m_axi_keys (key_reader): expected 64, found 32",
      "MAX_BURST of m_axi_gmem (command_reader): expected 64, found 32"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "right", "wrong", "expected"), OUR_FAULTS, ids=[fault[2] or "cut" for fault in OUR_FAULTS]
)
def test_a_fault_in_our_own_sources_is_named(tmp_path, file, right, wrong, expected):
    rtl = Path(shutil.copytree(OURS.parent, tmp_path / "rtl"))
    text = (rtl / file).read_text()
    assert text.count(right) == 1, f"{file} changed: plant the fault elsewhere"
    (rtl / file).write_text(text.replace(right, wrong))
    assert differences(rtl / OURS.name) == expected


def test_a_top_without_its_control_file_does_not_pass(tmp_path):
    shutil.copy(VITIS / TOP, tmp_path)
    assert differences(tmp_path / TOP) == [
        "control registers: expected the module nearkv_kernel_control_s_axi, found no file that holds it: name it too"
    ]


def test_what_a_file_does_not_tell_is_said(tmp_path):
    text = re.sub(r"\bnkv_kernel #\(.*?\) kernel \(", "unknown kernel (", OURS.read_text(), flags=re.DOTALL)
    (tmp_path / "alone.v").write_text(text)
    report = check([tmp_path / "alone.v"])
    assert report.passed
    assert [line.split(" (")[0] for line in report.not_checked] == ["burst lengths", "control registers"]


def test_conditions_macros_and_includes_are_followed(tmp_path):
    (tmp_path / "sizes.vh").write_text("`define WIDTH 64\n")
    (tmp_path / "top.v").write_text(
        '`timescale 1ns/1ps\n`include "sizes.vh"\n`ifdef WIDE\n`define W 512\n`elsif OTHER\n`define W 8\n`else\n'
        "`define W `WIDTH\n`endif\nmodule top (input [`W-1:0] a, /* ; ) */ output b); // module x\n"
        "function [3:0] f; input [3:0] x; f = x; endfunction\n"
        "generate if (1) begin : g\n  inner #(.N(2*3)) u (.a(a[1:0]), .b(b));\nend endgenerate\nendmodule\n"
    )
    top = Library([tmp_path / "top.v"]).top("nearkv_kernel")
    assert {name: str(port) for name, port in top.ports.items()} == {"a": "input [63:0]", "b": "output"}
    assert [(one.module, one.name, dict(one.parameters)) for one in top.instances] == [("inner", "u", {"N": 6})]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("wire x;\n", "holds no Verilog module"),
        ('`include "absent.vh"\nmodule m (input a); endmodule\n', "absent.vh, which is not beside it"),
        ("module m (input a input b); endmodule\n", "pyverilog cannot read the declarations of m"),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(tmp_path, text, sentence):
    (tmp_path / "m.v").write_text(text)
    with pytest.raises(VerilogError, match=sentence):
        check([tmp_path / "m.v"])


def invoke(*words: str):
    return CliRunner().invoke(app, ["check-ports", *words])


def test_the_command_prints_each_difference_writes_json_and_exits_with_1(vitis, tmp_path):
    top = vitis(TOP, (r"\[7:0\] m_axi_keys_ARLEN", "[3:0] m_axi_keys_ARLEN"))
    target = tmp_path / "out" / "ports.json"
    result = invoke(str(top), "--json", str(target))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "width of port m_axi_keys_ARLEN: expected 8, found 4"
    written = json.loads(target.read_text())
    assert written["passed"] is False
    assert written["differences"] == [{"thing": "width of port m_axi_keys_ARLEN", "expected": "8", "found": "4"}]
    assert invoke(str(VITIS)).exit_code == 0


def test_a_missing_file_is_an_error_and_no_pass(tmp_path):
    result = invoke(str(tmp_path / "nowhere.v"))
    assert isinstance(result.exception, VerilogError)
    assert "nowhere.v cannot be read" in str(result.exception)


def test_a_missing_pyverilog_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyverilog", None)
    result = invoke(str(OURS))
    assert isinstance(result.exception, UnsupportedError)
    assert "'pyverilog'" in str(result.exception)
    assert "nearkv[sim]" in str(result.exception)
