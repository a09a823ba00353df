"""Proofs of the RTL hold, and find a bug that was planted."""

from __future__ import annotations

import pytest

from nearkv_drivers.hardware import rtl_sources

pytest.importorskip("pyosys", reason="proofs need pyosys (nearkv[sim])")
from nearkv_sim.formal import Verdict, proofs, prove


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


def test_the_skid_buffer_is_proved_for_every_length_of_time():
    verdict = prove("skid")
    assert verdict.holds
    assert verdict.cycles is None
    assert verdict.assertions == 4


BUGS = [
    ("skid", "nkv_skid.sv", "out_data <= spare_valid ? spare : in_data", "out_data <= in_data"),
    ("fifo", "nkv_fifo.sv", "assign out_valid = count != 0", "assign out_valid = 1'b1"),
    ("axi_reader", "nkv_axi_reader.sv", "arvalid <= issue || (arvalid && !arready)", "arvalid <= issue"),
    ("axi_reader", "nkv_axi_reader.sv", "transfer.beats != 0 && room &&", "transfer.beats != 0 &&"),
    ("axi_writer", "nkv_axi_writer.sv", "assign wlast = sent == length", "assign wlast = sent == 0"),
    ("merge_stage", "nkv_merge_stage.sv", "{a.exists, a.share} >= {b.exists, b.share}", "a.share >= b.share"),
]


@pytest.mark.parametrize(("name", "file", "right", "wrong"), BUGS, ids=[f"{bug[0]}-{i}" for i, bug in enumerate(BUGS)])
def test_a_planted_bug_fails_the_proof(tmp_path, name, file, right, wrong):
    verdict = prove(name, planted(tmp_path, file, right, wrong), seconds=30)
    assert verdict.holds is False
    assert f"{name}" in verdict.line()
    assert "FAILED" in verdict.line()


@pytest.mark.slow
@pytest.mark.parametrize("name", proofs())
def test_every_proof_holds(name):
    verdict = prove(name)
    assert verdict.assertions > 0
    assert verdict.holds, verdict.line()


def test_verdicts_state_their_depth():
    assert Verdict("fifo", True, 5, None).line() == "fifo             proved for every length of time: 5 assertions"
    assert "for 30 cycles from reset" in Verdict("fifo", True, 5, 30).line()
    assert "UNDECIDED" in Verdict("fifo", None, 5, 12).line()
