"""The kernel's bench takes Verilog from elsewhere (``--dut``, ``DUT=``), passes a right kernel and fails a wrong one.

The kernel from elsewhere is our own: rewritten by Yosys as plain Verilog, inside a top shaped like Vitis HLS's.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from sim.vitis_shell import shell
from typer.testing import CliRunner

pytest.importorskip("pyverilog", reason="kernels from elsewhere need pyverilog (nearkv[sim])")
from nearkv_drivers.hardware import hardware_root
from nearkv_sim import runner
from nearkv_sim.check_ports import check
from nearkv_sim.check_ports_verilog import VerilogError
from nearkv_sim.cli import app
from nearkv_sim.external import WRAPPER, wrap
from nearkv_sim.runner import Outcome, run_bench

VITIS = Path(__file__).parent / "vitis_like"
OURS = hardware_root() / "fpga" / "rtl" / "nearkv_kernel.v"
BUNDLES = {"m_axi_keys": "m_axi_gmem0", "m_axi_gmem": "m_axi_gmem1"}
"""What Vitis HLS calls them where no bundle is named."""


@pytest.fixture(scope="module")
def verilog() -> str:
    pytest.importorskip("pyosys", reason="rewriting the kernel needs pyosys (nearkv[sim])")
    from nearkv_sim.rendition import rendition

    return rendition().read_text()


RIGHT, WRONG = "a[46:17] >= b[46:17]", "a[46:17] > b[46:17]"
"""A comparison of the sorter; the wrong one lets ties go to the higher position."""


def planted(module: re.Match[str]) -> str:
    """A module of the sorter that compares wrongly if ``planted.dat``, read when a simulation starts, says so."""
    header, body = module[1], module[2]
    if RIGHT not in body:
        return module[0]
    flag = '\n  reg wrong [0:0];\n  initial $readmemb("planted.dat", wrong);'
    return header + flag + body.replace(RIGHT, f"(wrong[0] ? {WRONG} : {RIGHT})")


@pytest.fixture(scope="module")
def external(tmp_path_factory, verilog) -> Path:
    """A folder like Vitis HLS's ``verilog``: the top, what it instantiates, and a memory's content in a .dat file."""
    folder = tmp_path_factory.mktemp("verilog")
    inner, count = re.subn(r"^module nearkv_kernel\(", "module score_core(", verilog, flags=re.MULTILINE)
    assert count == 1
    assert RIGHT in inner, "the RTL changed: plant the bug elsewhere"
    inner = re.sub(r"^(module \w+\([^;]*;)(.*?^endmodule)", planted, inner, flags=re.MULTILINE | re.DOTALL)
    (folder / "score_core.v").write_text(inner)
    (folder / "nearkv_kernel.v").write_text(shell("score_core", BUNDLES))
    return folder


def failures(outcome: Outcome) -> str:
    return "\n".join(f"{name}: {message}" for name, message in outcome.failures.items())


# ---- simulated -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_our_kernel_as_plain_verilog_in_a_vitis_shaped_top_passes(external):
    (external / "planted.dat").write_text("0\n")
    outcome = run_bench("kernel", seed=1, dut=[external / "nearkv_kernel.v"])
    assert outcome.passed, failures(outcome)
    assert outcome.tests == 7


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_planted_bug_fails(external):
    """The same simulation, whose sorter compares ``>`` in place of ``>=``."""
    (external / "planted.dat").write_text("1\n")
    outcome = run_bench("kernel", seed=1, dut=[external / "nearkv_kernel.v"])
    assert not outcome.passed
    assert "positions" in failures(outcome)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif("DUT" not in os.environ, reason="set DUT=path/to/verilog to test a kernel of your own")
def test_the_kernel_that_DUT_names() -> None:
    paths = [Path(path) for path in os.environ["DUT"].split(os.pathsep)]
    outcome = run_bench("kernel", seed=1, dut=paths)
    assert outcome.passed, failures(outcome)


# ---- ports, wrapper, refusals ----------------------------------------------------------------------


def test_the_rendition_has_our_ports(tmp_path, verilog):
    (tmp_path / "nearkv_kernel.v").write_text(verilog)
    report = check([tmp_path / "nearkv_kernel.v"])
    assert report.passed, report.lines()
    assert len(report.not_checked) == 2, "no constants are left in it"


def test_the_rendition_is_one_file_of_plain_verilog_that_is_made_once(tmp_path, verilog, monkeypatch, capsys):
    from nearkv_sim import rendition

    monkeypatch.setattr(rendition, "run_script", lambda *_: pytest.fail("it exists already"))
    monkeypatch.setattr(sys, "argv", ["rendition", "--out", str(tmp_path / "out" / "kernel.v")])
    assert rendition.main() == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "out" / "kernel.v")
    assert (tmp_path / "out" / "kernel.v").read_text() == verilog
    assert not re.search(r"\b(logic|always_ff|always_comb|package|import|struct)\b", verilog)


def test_the_wrapper_has_our_names_whatever_the_bundles_are_called(tmp_path):
    folder = tmp_path / "verilog"
    folder.mkdir()
    (folder / "nearkv_kernel.v").write_text(shell("score_core", BUNDLES))
    wrapped = wrap([folder], tmp_path)
    text = (tmp_path / f"{WRAPPER}.v").read_text()
    assert wrapped.files[-1] == tmp_path / f"{WRAPPER}.v"
    assert "output wire m_axi_keys_arvalid" in text
    assert ".m_axi_gmem0_ARVALID(m_axi_keys_arvalid)" in text
    assert ".m_axi_gmem1_WDATA(m_axi_gmem_wdata)" in text
    assert "input wire [5:0] s_axi_control_awaddr" in text
    assert ".m_axi_gmem0_ARLOCK()" in text, "two bits of lock are none of the bench's business"
    assert ".m_axi_gmem0_RUSER({1{1'b0}})" in text


def test_one_bundle_for_everything_leaves_the_keys_port_idle(tmp_path):
    text = re.sub(r"^.*m_axi_gmem0_.*\n", "", shell("score_core", BUNDLES).replace("gmem1", "gmem"), flags=re.MULTILINE)
    (tmp_path / "nearkv_kernel.v").write_text(text)
    wrap([tmp_path / "nearkv_kernel.v"], tmp_path / "run")
    wrapper = (tmp_path / "run" / f"{WRAPPER}.v").read_text()
    assert "assign m_axi_keys_arvalid = 0;" in wrapper
    assert ".m_axi_gmem_ARVALID(m_axi_gmem_arvalid)" in wrapper


def test_our_own_sources_are_a_kernel_from_elsewhere_too(tmp_path):
    wrap([OURS], tmp_path)
    wrapper = (tmp_path / f"{WRAPPER}.v").read_text()
    assert ".m_axi_keys_arvalid(m_axi_keys_arvalid)" in wrapper
    assert "m_axi_keys_aw" not in wrapper, "it writes no keys"


def test_files_beside_the_top_come_along(tmp_path):
    wrapped = wrap([VITIS / "nearkv_kernel.v"], tmp_path)
    assert VITIS / "nearkv_kernel_control_s_axi.v" in wrapped.files
    assert wrapped.folders == (VITIS,)


@pytest.mark.parametrize(
    ("pattern", "replacement", "sentence"),
    [
        (r"\[511:0\] (m_axi_gmem1_WDATA)", r"[255:0] \1", "width of port m_axi_gmem1_WDATA: expected 512, found 256"),
        (r"^ *output interrupt,\n", "", "port interrupt: expected output, found none"),
        (r"\bap_rst_n\b", "ap_rst", "reset: expected input ap_rst_n"),
        (r"^.*m_axi_.*\n", "", "it has no AXI master"),
        (r"s_axi_control_", "s_axi_AXILiteS_", "interface s_axi_control: expected its ports, found none"),
    ],
)
def test_what_the_bench_needs_is_said_before_anything_is_built(tmp_path, pattern, replacement, sentence):
    text = re.sub(pattern, replacement, shell("score_core", BUNDLES), flags=re.MULTILINE)
    (tmp_path / "nearkv_kernel.v").write_text(text.replace(",\n);", "\n);"))
    with pytest.raises(VerilogError, match=re.escape(sentence)):
        wrap([tmp_path / "nearkv_kernel.v"], tmp_path / "run")


# ---- command -------------------------------------------------------------------------------------


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    """Runs ``nearkv sim`` with a bench that is not simulated; returns the result and the ``dut`` it was given."""
    seen = []

    def run_bench(name, *, dut, **options):
        seen.append(tuple(dut))
        return Outcome(name, 5, 1, {"one": "T[0] is 3"}, tmp_path / "x.xml", None, None, tuple(dut))

    monkeypatch.setattr(runner, "run_bench", run_bench)
    return lambda *words: (CliRunner().invoke(app, list(words)), seen)


def test_dut_comes_from_the_option_or_the_environment_and_is_in_the_command_that_repeats(invoke, monkeypatch):
    result, seen = invoke("run", "kernel", "--dut", "a.v", "--dut", "b.v")
    assert "reproduce: nearkv sim run kernel --seed 5 --dut a.v --dut b.v" in result.stdout
    monkeypatch.setenv("DUT", os.pathsep.join(["c", "d.v"]))
    invoke("run", "kernel")
    assert seen == [(Path("a.v"), Path("b.v")), (Path("c"), Path("d.v"))]


@pytest.mark.parametrize("words", [("run", "fifo", "--dut", "a.v"), ("run", "--dut", "a.v"),
                                   ("run", "kernel", "--dut", "a.v", "--cover")])  # fmt: skip
def test_what_a_kernel_from_elsewhere_cannot_do_is_refused(invoke, words):
    result, seen = invoke(*words)
    assert result.exit_code == 2
    assert seen == []
