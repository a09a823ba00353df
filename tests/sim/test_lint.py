"""The RTL is clean for Verilator's -Wall and for slang, and both would say so if it were not."""

from __future__ import annotations

import pytest

pytest.importorskip("pyslang", reason="linting needs pyslang (nearkv[sim])")
from nearkv_sim import lint


def test_the_rtl_is_clean():
    assert lint.verilator_findings() == []
    assert lint.slang_findings() == []


def test_both_find_a_width_that_does_not_fit_and_a_name_that_does_not_exist(tmp_path, monkeypatch):
    top = tmp_path / "nearkv_kernel.sv"
    top.write_text("module nearkv_kernel(input logic [7:0] a, output logic [3:0] b);\n  assign b = a;\nendmodule\n")
    monkeypatch.setattr(lint, "rtl_sources", lambda: [top])
    assert any("WIDTHTRUNC" in line for line in lint.verilator_findings())
    top.write_text("module nearkv_kernel(output logic b);\n  assign b = absent;\nendmodule\n")
    assert lint.slang_findings() == ["slang: 1 errors, 0 warnings"]
