"""Coverage files and reports, without a simulation."""

from __future__ import annotations

from pathlib import Path

from nearkv_drivers.device import Mode
from nearkv_sim.coverage import FunctionalCoverage, code_coverage
from nearkv_sim.report import coverage_lines, outcome_lines, throughput_lines
from nearkv_sim.runner import Outcome, read_junit
from nearkv_sim.soak import Soak
from nearkv_sim.stimulus import Shape


def point(file: str, line: int, kind: str, name: str, count: int) -> str:
    fields = {"f": file, "l": line, "n": 3, "page": f"v_{kind}/mod", "o": name, "h": "top.x"}
    return "C '" + "".join(f"\x01{key}\x02{value}" for key, value in fields.items()) + f"' {count}\n"


def test_code_coverage_sums_instances_and_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a.dat", tmp_path / "b.dat"
    first.write_text(
        "# SystemC::Coverage-3\n"
        + point("rtl/nkv_x.sv", 7, "line", "block", 0)
        + point("rtl/nkv_x.sv", 9, "toggle", "a[0]", 1)
    )
    second.write_text(point("rtl/nkv_x.sv", 7, "line", "block", 4) + point("rtl/nkv_x.sv", 9, "toggle", "a[1]", 0))
    line, toggle = code_coverage([first, second])
    assert line.modules == {"nkv_x": (1, 1)}
    assert toggle.modules == {"nkv_x": (1, 2)}
    assert toggle.share == 0.5
    assert len(toggle.missed["nkv_x"]) == 1


def test_functional_coverage_names_what_is_missing() -> None:
    coverage = FunctionalCoverage(events=("one", "two"))
    coverage.request(Shape(4, 64, 5, Mode.TOPK, (2, 1), 9), "some", 70)
    coverage.event("one")
    missing = set(coverage.missing())
    assert len(coverage.declared()) - len(missing) == 4
    assert "format: 4 64 2..7 TOPK" not in missing
    assert "size: 4 64 2..3 TOPK" not in missing
    assert "traffic: some 64..255 TOPK" not in missing
    assert "event: two" in missing


def test_failed_outcome_says_how_to_repeat_it() -> None:
    outcome = Outcome("kernel", 7, 3, {"random_traffic": "total is 4\nmore"}, Path("x.xml"), None, None)
    assert outcome_lines(outcome)[-1].strip() == "reproduce: nearkv sim run kernel --seed 7"
    assert not Outcome("kernel", 7, 0, {}, Path("x.xml"), None, None).passed


def test_a_failed_start_of_a_soak_says_how_to_repeat_it() -> None:
    lines = Soak(starts=3, commands=20, failures=[(41, "start 41: T[0] is 3, expected 4")]).lines()
    assert "1 FAILED" in lines[0]
    assert lines[2].strip() == "reproduce: nearkv sim soak --seed 41 --starts 1"
    assert lines[-1] == "functional: 0 of 152 bins"


def test_junit(tmp_path: Path) -> None:
    path = tmp_path / "r.xml"
    cases = "<testcase name='a'/><testcase name='b'><failure message='no'/></testcase>"
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert read_junit(path) == (2, {"b": "no"})


def test_reports_from_files(tmp_path: Path) -> None:
    (tmp_path / "kernel.functional.json").write_text('{"format: x": 3, "format: y": 0}')
    (tmp_path / "kernel.dat").write_text(
        point("rtl/nkv_x.sv", 7, "line", "block", 0) + point("rtl/nkv_x.sv", 9, "toggle", "a", 2)
    )
    lines = coverage_lines(tmp_path)
    assert lines[0] == "functional, kernel: 1 of 2 bins"
    assert "line: 0.0 %" in lines
    row = {"bits": 8, "D": 64, "G": 4, "mode": "MASS", "k": 0, "latency": -1, "beats": 5, "cycles": 6,
           "beats_per_cycle": 0.9, "end_to_end": 0.8}  # fmt: skip
    assert "stalls" in throughput_lines([row])[1]
