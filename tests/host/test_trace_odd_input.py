"""`nearkv trace` with what people type and with damaged files: one sentence, nothing overwritten."""

import json
import os
import stat
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from nearkv.cli.trace import app
from nearkv.tiers.window_scaling import WindowPlan
from nearkv.trace.format import TraceError, load, save
from nearkv.trace.replay import replay_all

from tests.host.command_line import TEXT
from tests.host.traces import synthetic


@pytest.fixture
def folder(home):
    """A folder with a trace and a plan for it."""
    work = home / "work"
    save(synthetic(), work / "t.trace")
    even = np.full((2, 2), 9)
    WindowPlan("model", even, even).save(work / "plan.json")
    return work


# --- fractions, policies, plans ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", ["0", "-1", "1.5", "nan", "inf"])
@pytest.mark.parametrize("command", [["replay", "t.trace"], ["windows", "t.trace", "p.json"]])
def test_a_fraction_that_is_none(fails, folder, command, fraction):
    said = f"a DRAM fraction lies above 0 and is at most 1, not {float(fraction):g}"
    fails("trace", *command, "--dram-fraction", fraction, said=said)


@pytest.mark.parametrize("policies", [["all", "nonsense"], ["nonsense", "all"], ["lru,lookahead"]])
def test_every_policy_asked_for_must_exist(fails, folder, policies):
    asked = [part for name in policies for part in ("--policy", name)]
    fails("trace", "replay", "t.trace", *asked, said="there are: all, belady, fifo")


def test_a_plan_says_how_much_is_in_dram_itself(fails, nearkv, folder):
    arguments = ["trace", "replay", "t.trace", "--policy", "lru", "--windows", "plan.json"]
    fails(*arguments, "--dram-fraction", 0.2, said="plan.json says how many blocks are hot: leave --dram-fraction out")
    fails(*arguments, "--plot", "p.svg", "--json", "r.json", said="a plot varies the DRAM fraction")
    code, out, lines = nearkv(*arguments)
    assert code == 0, lines
    assert f"{(9 + 3) / 61:.0%} of" in out  # 9 blocks and three that are always in, of 61


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ('{"model": "model", "windows": [[1, 1]], "blocks": [[1e30, 1]]}', "not a window plan"),
        ('{"model": "model", "windows": [[1, 1]], "blocks": [[1000000000000000000000, 1]]}', "not a window plan"),
        ('{"model": "model", "windows": [[1, 1]], "blocks": [[1.5, 1]]}', "blocks must be whole numbers"),
        ('{"model": "model", "windows": [[1, 1]], "blocks": [[0, 0]]}', "blocks must be whole numbers"),
        ('{"model": "model", "windows": [[NaN, 1]], "blocks": [[1, 1]]}', "windows must be steps, at least 0"),
        ('{"model": 3, "windows": [[1]], "blocks": [[1]]}', "not a window plan"),
        ("[" * 100_000, "not a window plan"),
        ("[1, 2]", "not a window plan"),
        ('{"model": "model", "win', "not a window plan"),
        ("", "not a window plan"),
    ],
)
def test_a_plan_that_is_none(fails, folder, fields, said):
    (folder / "bad.json").write_text(fields)
    fails("trace", "replay", "t.trace", "--windows", "bad.json", said=f"bad.json: {said}")


def test_a_plan_for_more_blocks_than_there_are_takes_no_more_memory_than_those():
    trace = synthetic()
    all_blocks = int(trace.ranked.max()) + 1
    for warm in (False, True):
        results = replay_all(trace, np.full((2, 2), 10**12), ["lru"], warm=warm)
        assert results["lru"].pool_blocks == 4 * all_blocks
        assert results["lru"].hit_rate == replay_all(trace, all_blocks, ["lru"], warm=warm)["lru"].hit_rate


# --- damaged traces ------------------------------------------------------------------------------------------------


def test_a_trace_with_flipped_bits_or_cut_short_is_refused(tmp_path):
    path, rng = tmp_path / "bad.trace", np.random.default_rng(0)
    save(synthetic(steps=6), path)
    sound = load(path)
    whole = path.read_bytes()
    for _ in range(150):
        broken = bytearray(whole)
        broken[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        with suppress(TraceError):
            back = load(path)  # what a zip archive does not read: a date, the name of the system
            assert (back.ranked == sound.ranked).all()
            assert (back.priority == sound.priority).all()
        path.write_bytes(whole[: rng.integers(len(whole))])
        with pytest.raises(TraceError, match=r"bad\.trace"):
            load(path)


WRONG = {
    "layers": "2", "streams": None, "block_tokens": 1.5, "sink_blocks": -1, "recent_blocks": [1],
    "selected_blocks": True, "kv_block_bytes": float("nan"), "prompt_steps": "x", "model": 1, "text": None,
    "scorer": [],
}  # fmt: skip


@pytest.mark.parametrize("field", WRONG)
def test_a_field_of_another_type_is_refused_by_name(tmp_path, field):
    save(replace(synthetic(), info=replace(synthetic().info, **{field: WRONG[field]})), tmp_path / "bad.trace")
    with pytest.raises(TraceError, match=rf"bad\.trace: {field} is "):
        load(tmp_path / "bad.trace")


@pytest.mark.parametrize(
    ("entry", "change", "said"),
    [
        ("info", lambda a: np.frombuffer(b"[1]", np.uint8), "not a trace"),
        ("info", lambda a: np.frombuffer(b"[" * 100_000, np.uint8), "not a trace"),
        ("ranked", lambda a: a.astype(np.float32), "ranked is float32"),
        ("priority", lambda a: a.astype("U5"), "priority is <U5"),
        ("prompt", lambda a: a.astype(np.float64), "prompt is float64"),
        ("prompt", lambda a: a[:, :, :3], "the prompt's shares"),
        ("prompt", lambda a: a * np.nan, "not finite"),
        ("tokens", lambda a: a[0], "tokens"),
        ("tokens", lambda a: a * 0, "tokens"),
        ("tokens", lambda a: a[::-1].copy(), "tokens"),
        ("ranked", lambda a: a * 0 + 60_000, "name blocks beyond"),
    ],
)
def test_contents_that_do_not_fit_are_refused(tmp_path, entry, change, said):
    path = tmp_path / "bad.trace"
    save(synthetic(), path)
    with np.load(path) as file:
        entries = {name: file[name] for name in file.files}
    with path.open("wb") as file:
        np.savez_compressed(file, **{**entries, entry: change(entries[entry])})
    with pytest.raises(TraceError, match=r"bad\.trace: .*" + said):
        load(path)


# --- what is written -----------------------------------------------------------------------------------------------


def test_a_plan_does_not_overwrite_a_trace(fails, folder):
    trace = (folder / "t.trace").read_bytes()
    save(synthetic(seed=1), folder / "u.trace")
    other = (folder / "u.trace").read_bytes()
    fails("trace", "windows", "t.trace", "u.trace", said="u.trace is a trace: name the plan to write last")
    fails("trace", "windows", "t.trace", "./t.trace", said="t.trace")
    assert ((folder / "t.trace").read_bytes(), (folder / "u.trace").read_bytes()) == (trace, other)


def test_results_do_not_overwrite_what_they_come_from(fails, folder, text_file, plain):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    fails("trace", "replay", "t.trace", "--json", folder / "t.trace", said="is read by this command")
    fails("trace", "replay", "t.trace", "--windows", "plan.json", "--json", "plan.json", said="is read by this command")
    fails("trace", "replay", "t.trace", "--plot", "t.trace", said="suffix")
    fails("trace", "record", text_file, text_file, "--model", plain, said="is read by this command")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(("name", "said"), [("p", "suffix"), ("p.xyz", "suffix"), ("p.svg/q.svg", "p.svg")])
def test_a_plot_that_cannot_be_drawn_is_refused_before_the_replay(fails, folder, name, said):
    (folder / "p.svg").write_text("no folder")
    fails("trace", "replay", "t.trace", "--json", "r.json", "--plot", name, said=said)


def test_a_result_that_cannot_be_written(fails, folder):
    fails("trace", "replay", "t.trace", "--json", folder, said=str(folder))
    fails("trace", "windows", "t.trace", folder, said=str(folder))
    fails("trace", "windows", "t.trace", folder / "t.trace" / "p.json", said="t.trace")


def test_what_is_written_can_be_read_by_whom_the_umask_lets(folder, nearkv):
    before = os.umask(0o022)
    try:
        save(synthetic(), folder / "a.trace")
        nearkv("trace", "replay", "t.trace", "--policy", "lru", "--json", folder / "new" / "r.json")
    finally:
        os.umask(before)
    for path in (folder / "a.trace", folder / "new" / "r.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert "lru" in json.loads((folder / "new" / "r.json").read_text())


# --- recording -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--context", 400, "--steps", 600], "too few"),
        (["--context", 400, "--steps", 300, "--budget", 160], "492 are needed"),
        (["--context", 400, "--steps", 20, "--budget", 100], "leaves no block"),
        (["--context", 400, "--steps", 20, "--budget", 0], "leaves no block"),
        (["--context", 5000], f"text.txt has {len(TEXT)} tokens, --context 5000 were asked for"),
    ],
)
def test_a_recording_that_cannot_be(fails, plain, text_file, options, said):
    fails("trace", "record", text_file, "t.trace", "--model", plain, *options, said=said)


@pytest.mark.parametrize("options", [["--context", -5], ["--steps", 0], ["--steps", -3], ["--context", 0]])
def test_numbers_that_cannot_be(fails, plain, text_file, options):
    fails("trace", "record", text_file, "t.trace", "--model", plain, *options, code=2, said=options[0])


def test_a_text_that_is_none(fails, plain, home):
    (home / "work" / "bad.txt").write_bytes(b"ab\xff")
    fails("trace", "record", "bad.txt", "t.trace", "--model", plain, said="bad.txt is not UTF-8 text (byte 2)")
    fails("trace", "record", "none.txt", "t.trace", "--model", plain, said="(none.txt)")


@pytest.mark.parametrize("output", ["text.txt/t.trace", "."])
def test_an_output_that_cannot_be_is_refused_before_the_model_runs(fails, text_file, output):
    fails("trace", "record", text_file, output, "--model", "nobody/nothing", said=f"{output}")


def test_a_recording_replays(nearkv, plain, text_file):
    code, out, lines = nearkv(
        "trace", "record", text_file, "t.trace", "--model", plain, "--context", 400, "--steps", 20, "--budget", 160
    )
    assert code == 0, lines
    assert out.startswith("t.trace: 20 steps, 2 layers")
    assert load("t.trace").info.model == plain.name


def test_no_sub_command_prints_the_help_and_no_empty_error(nearkv):
    code, out, lines = nearkv("trace")
    assert code == 2
    assert "replay" in out
    assert lines == []


def test_the_command_alone_reports_as_the_whole_one_does(folder, monkeypatch):
    result = CliRunner().invoke(app, ["replay", "t.trace", "--dram-fraction", "nan"])
    assert result.exit_code == 1
    assert result.output.startswith("error: a DRAM fraction lies")
