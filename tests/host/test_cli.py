"""The command line in this process: what it answers and reports, and one sentence for everything that goes wrong."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from nearkv.cache.config import TierConfig
from nearkv.cli.tier_options import TierOptions
from nearkv.tiers.window_scaling import WindowPlan

from tests.host.command_line import HEADS, TEXT, files, make_folder

# --- generate ------------------------------------------------------------------------------------------------------


def test_a_prompt_is_answered(nearkv, plain, home):
    code, out, _ = nearkv("generate", "one two three", "--model", plain, "--max-new-tokens", 5)
    assert code == 0
    assert out.strip("\n")
    assert not files(home)


def test_the_report_says_what_the_run_needed(nearkv, plain, home, text_file):
    report_file = home / "work" / "new" / "report.json"
    code, out, _ = nearkv(
        "generate", "--prompt-file", text_file, "--model", plain, "--max-new-tokens", 40, "--budget", 160,
        "--dram-limit", "400KiB", "--policy", "fifo", "--bits", 8, "--alpha", 0.3, "--json", report_file,
    )  # fmt: skip
    assert code == 0
    report = json.loads(report_file.read_text())
    assert report["prompt_tokens"] == len(TEXT)
    assert len(report["new_tokens"]) == 40
    assert report["text"] in out
    assert report["decode_steps"] == 39
    assert report["tokens_per_second"] > 0
    assert 0 < sum(report["dram_bytes"].values()) <= 400 << 10
    kv_per_token = 2 * 2 * HEADS["num_key_value_heads"] * HEADS["head_dim"] * 4
    assert report["full_kv_bytes"] == (len(TEXT) + 39) * kv_per_token
    assert report["resident_kv_fraction"] == sum(report["dram_bytes"].values()) / report["full_kv_bytes"]
    assert report["bytes_by_path"]["host_to_drive"] == report["drive_bytes_written"] > 0
    assert report["bytes_by_path_per_token"]["drive_to_host"] > 0
    assert report["bad_score_blocks"] == 0
    assert report["device"]["simulated"] is True
    asked = {"budget": 160, "bits": 8, "policy": "fifo", "dram_limit": 400 << 10, "alpha": 0.3}
    assert report["config"] | asked == report["config"]
    placement = report["placement"]
    assert (placement["policy"], placement["bits"], placement["alpha"]) == ("fifo", 8, 0.3)
    assert placement["bound"] == "alpha"
    assert 0.2 < placement["hot_tokens_fraction"] <= 0.3
    assert 0 < placement["drive_reads_per_step"] <= placement["fetched_blocks_per_step"]
    assert placement["bytes_read_per_byte_used"] == 1
    assert placement["events"] == []
    assert files(home) == {text_file, report_file}


def test_beta_and_a_first_stage_are_reported(nearkv, plain, home, text_file):
    answers = []
    for options in ([], ["--beta", "adaptive"], ["--beta", "0.5", "--first-stage", "quest_int8"]):
        report_file = home / "report.json"
        code, _, lines = nearkv(
            "generate", "--prompt-file", text_file, "--model", plain, "--max-new-tokens", 20, "--budget", 160,
            "--device", f"emulated:{home}/kv?ddr=64MiB&score=300MB/s&link=1GB/s", "--json", report_file, *options,
        )  # fmt: skip
        assert code == 0, lines
        report = json.loads(report_file.read_text())
        answers.append(report["new_tokens"])
        beta, stage = report["scoring"]["beta"], report["scoring"]["first_stage"]
        assert (beta is None) == ("--beta" not in options)
        assert (stage is None) == ("--first-stage" not in options)
        assert report["device"]["simulated_score_rate"] == 300e6
        assert any("simulated score rate" in line for line in lines)
        if beta is not None:
            assert report["dram_bytes"]["score_copies"] > 0
            assert beta["host_bytes"] > 0
            assert beta["drive_bytes"] > 0
            assert any("scored by the host" in line for line in lines)
        if stage is not None:
            assert report["dram_bytes"]["summaries"] > 0
            assert 0 < stage["scored_share"] < 1
            assert any("after the first stage" in line for line in lines)
    assert answers[1] == answers[0]


def test_cold_bits_are_reported_and_read_fewer_bytes(nearkv, plain, home, text_file):
    for bits, block_bytes in ((None, 8192), (8, 4096)):
        report_file = home / "report.json"
        code, _, lines = nearkv(
            "generate", "--prompt-file", text_file, "--model", plain, "--max-new-tokens", 20, "--budget", 160,
            "--dram-limit", "400KiB", "--json", report_file, *(["--cold-bits", bits] if bits else []),
        )  # fmt: skip
        assert code == 0, lines
        report = json.loads(report_file.read_text())
        assert report["config"]["cold_bits"] == report["placement"]["cold_bits"] == bits
        assert report["placement"]["bytes_read_per_byte_used"] == (2 if bits else 1)  # 2,048 bytes of codes, a page
        assert (report["dram_bytes"]["cold_scales"] > 0) == (bits is not None)
        assert sum(report["dram_bytes"].values()) <= 400 << 10
        assert any("8 bits per value" in line for line in lines) == (bits is not None)
        fetched = report["placement"]["fetched_blocks_per_step"]
        assert report["bytes_by_path_per_token"]["drive_to_host"] == pytest.approx(fetched * block_bytes)
        assert fetched > 0


def test_file_and_prompt_are_one_text(nearkv, plain, home, text_file):
    report_file = home / "report.json"
    options = ["--model", plain, "--max-new-tokens", 1, "--json", report_file]
    nearkv("generate", "And?", "--prompt-file", text_file, *options)
    assert json.loads(report_file.read_text())["prompt_tokens"] == len(TEXT) + len("\n\nAnd?")


@pytest.mark.parametrize(("raw", "rendered"), [(["--raw"], "hello"), ([], "<|user|>hello<|assistant|>")])
def test_the_chat_template_is_used_unless_raw(nearkv, chat, home, raw, rendered):
    report_file = home / "report.json"
    code, _, lines = nearkv("generate", "hello", "--model", chat, "--max-new-tokens", 1, "--json", report_file, *raw)
    assert code == 0, lines
    assert json.loads(report_file.read_text())["prompt_tokens"] == len(rendered)


def test_a_full_budget_gives_the_answer_of_a_large_device_and_a_small_one(nearkv, plain, home, text_file):
    answers = []
    for ddr in ("4GiB", "4MiB"):
        report_file = home / f"{ddr}.json"
        device = f"emulated:{home}/drive?ddr={ddr}"
        code, _, lines = nearkv(
            "generate", "--prompt-file", text_file, "--model", plain, "--max-new-tokens", 8, "--budget", 160,
            "--device", device, "--json", report_file,
        )  # fmt: skip
        assert code == 0, lines
        report = json.loads(report_file.read_text())
        assert report["device"]["url"] == device
        answers.append(report["new_tokens"])
        assert not (home / "drive").exists()
    assert answers[0] == answers[1]


# --- compare -------------------------------------------------------------------------------------------------------


def test_compare_reports_what_others_rely_on(nearkv, plain, home, text_file):
    report_file = home / "report.json"
    code, out, lines = nearkv(
        "compare", "--prompt-file", text_file, "--context", 400, "--tokens", 16, "--budget", 160, "--model", plain,
        "--cold-bits", 8, "--layout", "selected_together", "--json", report_file,
    )  # fmt: skip
    assert code == 0, lines
    report = json.loads(report_file.read_text())
    assert report["config"]["layout"] == "selected_together"
    assert report["placement"]["cold_bits"] == 8
    assert report["delta_nll"] == pytest.approx(report["nll"]["nearkv"] - report["nll"]["dense"], abs=1e-9)
    assert abs(report["delta_nll"]) < 0.1
    assert 0 <= report["top1_agreement"] <= 1
    assert report["resident_kv_fraction"] > 0
    assert report["tokens_per_second"].keys() == {"dense", "nearkv"}
    assert min(report["tokens_per_second"].values()) > 0
    assert report["selected_mass"].keys() == {"int4", "int8", "quest", "mean_key", "recent"}
    for shares in report["selected_mass"].values():
        assert 0 < shares["worst_layer"] <= shares["mean"] <= 1 + 1e-9
    assert report["selected_mass"]["int8"]["mean"] > 0.99
    assert "most recent" in out
    assert f"{report['top1_agreement']:.3f}" in out


def test_compare_takes_beta_and_a_first_stage(nearkv, plain, home, text_file):
    report_file = home / "report.json"
    code, out, lines = nearkv(
        "compare", "--prompt-file", text_file, "--context", 400, "--tokens", 16, "--budget", 160, "--model", plain,
        "--beta", "0.5", "--first-stage", "quest_int8", "--json", report_file,
    )  # fmt: skip
    assert code == 0, lines
    report = json.loads(report_file.read_text())
    assert report["scoring"]["beta"]["host_bytes"] > 0
    assert 0 < report["scoring"]["first_stage"]["scored_share"] < 1
    assert "scored by the host" in out
    assert "blocks scored after the first stage" in out


def test_with_the_whole_context_as_budget_nothing_differs(nearkv, plain, home, text_file):
    report_file = home / "report.json"
    code, _, lines = nearkv(
        "compare", "--prompt-file", text_file, "--context", 100, "--tokens", 16, "--budget", 2048, "--model", plain,
        "--json", report_file,
    )  # fmt: skip
    assert code == 0, lines
    report = json.loads(report_file.read_text())
    assert report["top1_agreement"] == 1
    assert abs(report["delta_nll"]) < 1e-4


def test_compare_wants_a_text_that_is_long_enough(fails, plain, text_file):
    fails(
        "compare", "--prompt-file", text_file, "--context", 4000, "--model", plain,
        code=2, said=f"holds {len(TEXT)} tokens; --context 4000 and --tokens 256 need 4256",
    )  # fmt: skip


# --- wrong usage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["generate", "compare", "demo"])
def test_commands_that_run_a_model_take_every_tier_option(nearkv, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = nearkv(command, "--help")
    assert code == 0
    for option in dataclasses.fields(TierOptions):
        assert f"--{option.name.replace('_', '-')} " in out
    assert f"[default: {512 if command == 'demo' else TierConfig.budget}]" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["generate"], "give a prompt, --prompt-file, or both"),
        (["generate", "hi", "--policy", "magic"], "no policy is called 'magic'; there are: "),
        (["generate", "hi", "--bits", "5"], "4 or 8 bits"),
        (["generate", "hi", "--budget", "64"], "too small"),
        (["generate", "hi", "--budget", "many"], "'--budget'"),
        (["generate", "hi", "--dram-limit", "much%"], "--dram-limit much%"),
        (["generate", "hi", "--dram-limit", "6 bananas"], "--dram-limit=6 bananas is not a size"),
        (["generate", "hi", "--alpha", "1.5"], "alpha is the share of tokens that stays hot"),
        (["generate", "hi", "--cold-bits", "16"], "cold_bits are 8 or 4 bits per value"),
        (["generate", "hi", "--beta", "fast"], "or 'adaptive', not 'fast'"),
        (["generate", "hi", "--layout", "random"], "no layout is called 'random'; there are: position, selected_tog"),
        (["generate", "hi", "--first-stage", "oracle"], "no first stage is called 'oracle'; there are: hierarchical, "),
        (["generate", "hi", "--window-plan", "/no/plan"], "/no/plan: no such window plan; make one with"),
        (["generate", "hi", "--max-new-tokens", "0"], "--max-new-tokens"),
        (["generate", "hi", "--colour", "red"], "--colour"),
        (["compare"], "--prompt-file"),
        (["demo", "--context", "512", "--first-stage", "oracle"], "no first stage is called 'oracle'"),
        (["fly"], "fly"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_wrong_usage(fails, plain, arguments, said):
    model = ["--model", plain] if arguments[0] in ("generate", "demo") else []
    fails(*arguments, *model, code=2, said=said)


def test_an_empty_prompt(fails, plain):
    fails("generate", "", "--model", plain, code=2, said="the prompt is empty")


def test_no_command_prints_the_help(nearkv):
    code, out, lines = nearkv()
    assert code == 2
    assert "generate" in out + "".join(lines)


# --- files and models ----------------------------------------------------------------------------------------------


def test_a_missing_prompt_file(fails, plain, home):
    fails("generate", "--prompt-file", home / "none.txt", "--model", plain, said="none.txt")


def test_a_binary_prompt_file(fails, plain, home):
    path = home / "picture.txt"
    path.write_bytes(b"PNG\xff\xfe")
    fails("generate", "--prompt-file", path, "--model", plain, said="picture.txt is not UTF-8 text (byte 3)")


def test_a_prompt_file_that_is_a_folder(fails, plain, home):
    fails("generate", "--prompt-file", home, "--model", plain, said=str(home))


def test_an_unknown_model(fails):
    fails("generate", "hi", "--model", "nobody/nothing", said="the model 'nobody/nothing' cannot be loaded: ")


def test_keys_that_are_not_finite(fails, tmp_path_factory):
    folder = make_folder(tmp_path_factory.mktemp("poisoned"), poison=True)
    said = "layer 1, KV head 0, sequence 0: the key of token 0 is not finite"
    fails("generate", TEXT, "--model", folder, said=said)


def test_a_window_plan_of_this_model_is_followed(nearkv, plain, home):
    blocks, path, report_file = np.array([[1, 7], [0, 2]]), home / "plan.json", home / "report.json"
    WindowPlan(plain.name, blocks, blocks).save(path)
    options = ["--budget", 160, "--max-new-tokens", 3, "--window-plan", path, "--json", report_file]
    code, _, lines = nearkv("generate", TEXT, "--model", plain, *options)
    assert code == 0, lines
    assert json.loads(report_file.read_text())["config"]["window_plan"] == str(path)


def test_a_window_plan_of_another_name_is_refused(fails, plain, home):
    blocks, path = np.ones((2, 2), np.int64), home / "plan.json"
    WindowPlan("llama", blocks, blocks).save(path)
    options = ["--model", plain, "--window-plan", path]
    fails("generate", TEXT, *options, code=2, said=f"made for llama, not for {plain.name}; profile a trace")


@pytest.mark.parametrize("shape", [(1, 2), (2, 3)])
def test_a_window_plan_of_another_model_is_refused(fails, plain, home, shape):
    blocks = np.full(shape, 3)
    path = home / "work" / "plan.json"
    WindowPlan(plain.name, blocks, blocks).save(path)
    said = f"a plan for {shape[0]} x {shape[1]} layers and KV heads, made for {plain.name}; this model has 2 tiered"
    fails("generate", TEXT, "--model", plain, "--window-plan", path, said=said)


def test_a_dram_limit_that_is_too_small(fails, plain):
    fails("generate", TEXT, "--model", plain, "--dram-limit", "1KiB", said="a DRAM limit of 1,024 bytes is too small")


@pytest.mark.parametrize("command", [["generate", "hi"], ["compare"], ["demo"]], ids=lambda words: words[0])
def test_a_report_that_cannot_be_written_is_refused_before_the_model_runs(fails, text_file, home, command):
    prompt = [] if command == ["demo"] else ["--prompt-file", text_file]
    for report in (text_file / "report.json", home):
        fails(*command, *prompt, "--model", "nobody/nothing", "--json", report, said=f"{report}")


def test_a_report_does_not_overwrite_the_text_or_the_plan(fails, text_file):
    text = text_file.read_text()
    options = ["--prompt-file", text_file, "--model", "nobody/nothing", "--json", "text.txt"]
    for command in ("generate", "compare"):
        fails(command, *options, said="text.txt is read by this command: write to another file")
    assert text_file.read_text() == text


def test_an_answer_is_not_lost_with_its_report(nearkv, plain, home, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "report.json")

    monkeypatch.setattr("nearkv.cli.generate.write_json", full)
    code, out, lines = nearkv("generate", "hi", "--model", plain, "--max-new-tokens", 4, "--json", "report.json")
    assert code == 1
    assert out.strip("\n")
    assert lines[-1] == "error: No space left on device (report.json)"
    assert not files(home)
