"""``nearkv sim``: what it prints, what it refuses, what it writes; the simulations themselves are faked."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

pytest.importorskip("cocotb", reason="nearkv sim needs cocotb (nearkv[sim])")
from nearkv.errors import InputError, UnsupportedError
from nearkv_sim import runner as sim_runner
from nearkv_sim import soak, throughput
from nearkv_sim.cli import app


def invoke(*words: str):
    return CliRunner().invoke(app, list(words))


def outcome(name: str, failures: dict[str, str], tmp_path) -> sim_runner.Outcome:
    return sim_runner.Outcome(name, 77, 3, failures, tmp_path / f"{name}.xml", None, None)


def test_every_bench_is_listed():
    result = invoke("list")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in sim_runner.BENCHES)


def test_a_failure_prints_the_command_that_repeats_it_and_exits_with_1(monkeypatch, tmp_path):
    seen = {}

    def run_bench(name, **options):
        seen[name] = options
        return outcome(name, {"one": "T[0] is 3, expected 4"}, tmp_path)

    monkeypatch.setattr(sim_runner, "run_bench", run_bench)
    result = invoke("run", "fold", "--seed", "77", "--waves", "--effort", "2")
    assert result.exit_code == 1
    assert "reproduce: nearkv sim run fold --seed 77" in result.stdout
    assert "T[0] is 3, expected 4" in result.stdout
    assert "fold.xml" in result.stdout
    assert seen == {"fold": {"waves": True, "seed": 77, "cover": False, "effort": 2, "dut": ()}}


def test_without_a_name_every_bench_runs(monkeypatch, tmp_path):
    ran = []

    def run_bench(name, **options):
        ran.append(name)
        return outcome(name, {}, tmp_path)

    monkeypatch.setattr(sim_runner, "run_bench", run_bench)
    assert invoke("run").exit_code == 0
    assert ran == list(sim_runner.BENCHES)


def test_an_unknown_bench_is_refused():
    result = invoke("run", "no_such_bench")
    assert result.exit_code == 2


def test_throughput_rows_are_printed_and_written(monkeypatch, tmp_path):
    row = {
        "bits": 8, "D": 128, "G": 4, "mode": "TOPK", "k": 64, "latency": -1, "beats": 65536, "cycles": 70000,
        "beats_per_cycle": 0.99, "end_to_end": 0.936,
    }  # fmt: skip
    monkeypatch.setattr(throughput, "bench", lambda full: iter([row, row] if full else [row]))
    target = tmp_path / "out" / "rows.json"
    result = invoke("bench", "--json", str(target))
    assert result.exit_code == 0
    assert "stalls" in result.stdout
    assert "0.9360" in result.stdout
    assert json.loads(target.read_text()) == [row, row]
    assert len(invoke("bench", "--quick").stdout.splitlines()) == 2


def test_a_missing_simulator_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cocotbext.axi", None)
    result = invoke("list")
    assert isinstance(result.exception, UnsupportedError)
    assert "nearkv[sim]" in str(result.exception)


def test_a_soak_that_failed_exits_with_1(monkeypatch):
    asked = []

    def run_soak(seed, starts, sleep):
        asked.append((seed, starts))
        return soak.Soak(sleep=sleep, starts=starts, failures=[(seed + 1, "wrong")])

    monkeypatch.setattr(soak, "soak", run_soak)
    result = invoke("soak", "--seed", "7", "--starts", "2", "--sleep")
    assert result.exit_code == 1
    assert "reproduce: nearkv sim soak --seed 8 --starts 1 --sleep" in result.stdout
    assert asked == [(7, 2)]


def test_a_report_on_ports_does_not_overwrite_the_kernel(tmp_path):
    pytest.importorskip("pyverilog", reason="reading Verilog needs pyverilog (nearkv[sim])")
    kernel = tmp_path / "kernel.v"
    kernel.write_text("module nearkv_kernel; endmodule\n")
    result = invoke("check-ports", str(kernel), "--json", str(kernel))
    assert isinstance(result.exception, InputError)
    assert "kernel.v is read by this command: write to another file" in str(result.exception)
    assert kernel.read_text() == "module nearkv_kernel; endmodule\n"
