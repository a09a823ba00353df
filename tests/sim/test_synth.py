"""The synthesis estimate's own arithmetic: equal modules, weights of cells, levels of logic."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from nearkv_drivers.hardware import hardware_root
from nearkv_sim.dedupe import dedupe

FOLDER = hardware_root() / "fpga" / "synth"


@pytest.fixture(scope="module")
def synth():
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: load(name) for name in ("levels", "estimate")}
    finally:
        sys.path.remove(str(FOLDER))


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaf(path: str, first: int, kind: str = "$and") -> str:
    return (
        f'attribute \\src "x.sv:{first}"\nmodule \\leaf${path}\n  attribute \\hdlname "{path}"\n'
        f"  wire $auto${first}\n  cell {kind} $c${first + 1}\n    connect \\Y $auto${first}\n  end\nend\n"
    )


def test_equal_modules_become_one_and_others_stay():
    top = "module \\top\n" + "".join(f"  cell \\leaf$top.{name} \\{name}\n  end\n" for name in "abc") + "end\n"
    text = "autoidx 9\n" + 'attribute \\top 1\n' + top + leaf("top.a", 5) + leaf("top.b", 7) + leaf("top.c", 9, "$or")
    result = dedupe(text, "top")
    assert result.startswith("autoidx 9\n")
    assert result.count("module \\leaf\n") == 1
    assert result.count("module \\leaf_1\n") == 1
    assert result.count("cell \\leaf \\") == 2
    assert "cell \\leaf_1 \\c" in result


def test_cells_count_as_what_they_take(synth):
    cells = {
        "LUT6": 10, "LUT2": 5, "SRL16E": 2, "RAM32M16": 3, "FDRE": 7, "FDSE": 1, "DSP48E2": 4, "RAMB36E2": 2,
        "RAMB18E2": 3, "URAM288": 1, "CARRY8": 9, "MUXF7": 6,
    }  # fmt: skip
    used = synth["estimate"].utilisation(cells)
    assert used == {"lut": 41, "ff": 8, "dsp": 4, "bram36": 3.5, "uram": 1}


def test_cells_are_summed_over_the_hierarchy(synth):
    modules = {
        "\\top": {"num_cells_by_type": {"LUT6": 1, "pair": 2}},
        "\\pair": {"num_cells_by_type": {"leaf": 2, "FDRE": 3}},
        "\\leaf": {"num_cells_by_type": {"FDRE": 5, "LUT6": 1}},
    }
    assert synth["estimate"].total_cells(modules, "top") == {"LUT6": 5, "FDRE": 26}


def test_a_limit_that_is_exceeded_is_named(synth, capsys):
    used = {"lut": 10, "ff": 10, "dsp": 673, "bram36": 492, "uram": 64}
    assert synth["estimate"].print_table(used) == ["dsp"]
    assert "limit 50%: EXCEEDED" in capsys.readouterr().out


def test_levels_follow_luts_through_aliases_and_carry_chains_and_stop_at_registers(synth):
    def cell(kind: str, name: str, **ports: str) -> str:
        lines = "".join(f"    connect \\{port} {signal}\n" for port, signal in ports.items())
        return f"  cell \\{kind} {name}\n{lines}  end\n"

    body = (
        "  wire \\a\n  wire \\b\n  wire \\c\n  wire width 2 \\s\n  wire \\q\n  wire \\e\n"
        + cell("LUT2", "$l1", I0="\\a", I1="\\q", O="\\b")
        + cell("CARRY8", "$c1", S="{ 7'0000000 \\c }", O="\\s")
        + cell("LUT1", "$l2", I0="\\s [1]", O="\\e")
        + cell("FDRE", "$f", D="\\e", Q="\\q")
        + "  connect \\c \\b\n"
    )
    assert synth["levels"].longest_levels(f"module \\m\n{body}end\n") == {"m": 3}, "a LUT, a carry chain, a LUT"
    assert synth["estimate"].configuration()["STORE_ROWS"] == 65536
