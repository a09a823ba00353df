"""Adaptive beta on the emulated drive with simulated bandwidths: do host and drive finish together?

One attention layer over random keys and values; every step the drive scores its part and the host the rest, both at
once. The gap is by how much the medians of the two sides' times differ, as a share of the longer one.

- Staged: the drive scores at a simulated rate fs and stages what its small DRAM does not hold over a link of simulated
  rate Bs. The host's rate is simulated too, because on a small machine it would compete with the emulation of the
  drive for the processor.
- Resident: the same with a device DRAM that holds everything. Then fs is halved in mid-run: steps until the gap of a
  few steps is back within a tenth.
- Real host: the host scores as fast as it can; everything is resident.

    python bench/beta.py [--tokens 131072] [--steps 48] [--json build/bench/beta.json]
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, LlamaConfig

import nearkv
from nearkv.files import write_json
from nearkv.session import Session
from nearkv_drivers.native_kernel import NativeKernel
from nearkv_drivers.pacing import Pace, PacedKernel

KV_HEADS, HEAD_DIM = 4, 64
MIB = 1 << 20
WITHIN = 0.1
"""Gap at which the sides count as finishing together."""
MEDIAN_OF = 5
"""Steps of the running median: one stalled step is the scheduler's, not beta's."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=131072)
    parser.add_argument("--steps", type=int, default=48, help="per combination; the last half is judged")
    parser.add_argument("--score-rates", default="250,500,1000,2000", help="fs in MiB/s, comma-separated")
    parser.add_argument("--link-rates", default="250,1000,4000", help="Bs in MiB/s, comma-separated")
    parser.add_argument("--host-rate", type=float, default=1000, help="simulated fc in MiB/s")
    parser.add_argument("--ddr", default="2MiB", help="device DRAM of the sweep, small so that the drive has to stage")
    parser.add_argument("--real-host-score-rates", default="4000,8000,16000", help="fs in MiB/s against the real host")
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="where the drive file goes")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def one_layer() -> torch.nn.Module:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=2 * KV_HEADS * HEAD_DIM,
        intermediate_size=256,
        num_hidden_layers=1,
        num_attention_heads=2 * KV_HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        max_position_embeddings=1 << 20,
    )
    return nearkv.attach(AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval())


class Run:
    """One cache, filled, whose sides are observed step by step."""

    def __init__(self, model: torch.nn.Module, options: argparse.Namespace, ddr: str) -> None:
        url = f"emulated:{options.folder}/beta-{os.getpid()}.drive?ddr={ddr}&score=8GiB/s&link=8GiB/s"
        self.cache = nearkv.TieredCache(model, url, beta="adaptive", bits=8, expected_tokens=options.tokens + 1024)
        generator = torch.Generator().manual_seed(1)
        keys = torch.randn(1, KV_HEADS, options.tokens, HEAD_DIM, generator=generator)
        self.cache.load(0, keys, torch.randn(keys.shape, generator=generator))
        self.cache.settle()
        self.session = Session(model, self.cache)
        self.host_pace(options.host_rate)

    def host_pace(self, rate: float | None) -> None:
        """Bandwidth of the host's scoring from now on, in MiB/s; None: its own."""
        pace = Pace("host", None if rate is None else rate * MIB)
        beside = self.cache.tiered_layers[0].scorer.beside
        beside.copies.kernel = lambda memory: PacedKernel(NativeKernel(memory), pace)

    def pace(self, score: float, link: float) -> None:
        """Bandwidths of the drive from now on, in MiB/s."""
        self.cache.drive.set_pace(score=score * MIB, link=link * MIB)

    def step(self, count: int) -> list[dict[str, float]]:
        """Decode ``count`` tokens and one more, whose beginning completes the figures of the last; the figures."""
        figures = []
        for token in range(count + 1):
            self.session.step(token % 256)
            figures.append(dict(self.beta["last_step"]))
        return figures[1:]

    @property
    def beta(self) -> dict[str, Any]:
        """The balance's report."""
        return self.cache.scoring_report()["beta"]

    @property
    def staged(self) -> int:
        """Bytes of score blocks that the drive has read into its DRAM."""
        return self.cache.drive.telemetry().drive_to_device


def gap(steps: list[dict[str, float]]) -> float:
    """By how much the medians of the sides' times differ, as a share of the longer one."""
    host, drive = (statistics.median(step[f"{side}_seconds"] for step in steps) for side in ("host", "drive"))
    return abs(host - drive) / max(host, drive)


def judge(run: Run, steps: int, score: float, link: float) -> dict[str, Any]:
    """Half of ``steps`` to settle at these bandwidths, the other half judged."""
    run.pace(score, link)
    run.step(steps // 2)
    before, changes = run.staged, run.beta["changes"]
    judged = run.step(steps // 2)
    return {
        "simulated_score_mib_s": score,
        "simulated_link_mib_s": link,
        "beta": run.beta["beta"],
        "limit": run.beta["limit"],
        "rates": run.beta["rates"],
        "changes": run.beta["changes"] - changes,
        "staged_mib_per_step": (run.staged - before) / (steps // 2 + 1) / MIB,
        "host_ms": 1e3 * statistics.median(step["host_seconds"] for step in judged),
        "drive_ms": 1e3 * statistics.median(step["drive_seconds"] for step in judged),
        "gap": gap(judged),
        "median_gap_of_a_step": statistics.median(step["gap"] for step in judged),
    }


def throttle(run: Run, options: argparse.Namespace, score: float, link: float) -> dict[str, Any]:
    """Halve fs in mid-run; how many steps until the running median of the gap is within a tenth again?"""
    run.pace(score, link)
    run.step(options.steps)
    before = run.beta["beta"]
    run.pace(score / 2, link)
    steps = run.step(options.steps)
    gaps = [gap(steps[i : i + MEDIAN_OF]) for i in range(len(steps) - MEDIAN_OF + 1)]
    return {
        "simulated_score_mib_s": [score, score / 2],
        "simulated_link_mib_s": link,
        "beta": [before, run.beta["beta"]],
        "gap_at_the_change": steps[0]["gap"],
        "steps_until_within_a_tenth": next((i + MEDIAN_OF for i, each in enumerate(gaps) if each <= WITHIN), None),
        "gap_after": gap(steps[len(steps) // 2 :]),
    }


def show(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title)
    columns = {"fs MiB/s": "simulated_score_mib_s", "Bs MiB/s": "simulated_link_mib_s",
               "staged MiB/step": "staged_mib_per_step", "beta": "beta", "host ms": "host_ms", "drive ms": "drive_ms",
               "gap": "gap", "gap of a step": "median_gap_of_a_step"}  # fmt: skip
    for name in columns:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(f"{row[key]:.1%}" if "gap" in key else f"{row[key]:.4g}" for key in columns.values()))
    Console().print(table)


def main() -> None:
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    model = one_layer()
    scores, links, real = (
        [float(rate) for rate in text.split(",")]
        for text in (options.score_rates, options.link_rates, options.real_host_score_rates)
    )
    run = Run(model, options, options.ddr)
    with run.cache:
        staged = [judge(run, options.steps, score, link) for score in scores for link in links]
    run = Run(model, options, "1GiB")
    with run.cache:
        resident = [judge(run, options.steps, score, max(links)) for score in scores]
        changes = [throttle(run, options, score, max(links)) for score in scores]
        run.host_pace(None)
        real_host = [judge(run, options.steps, score, max(links)) for score in real]
    show(f"drive and host simulated, fc {options.host_rate:g} MiB/s, device DRAM {options.ddr}", staged)
    show("the same, all in device DRAM", resident)
    for change in changes:
        print(
            f"fs {change['simulated_score_mib_s'][0]:g} MiB/s halved: beta {change['beta'][0]:.2f} to "
            f"{change['beta'][1]:.2f}, gap {change['gap_at_the_change']:.0%}, within a tenth after "
            f"{change['steps_until_within_a_tenth']} steps, then {change['gap_after']:.1%}"
        )
    show("drive simulated, host real, all in device DRAM", real_host)
    worst = max(row["gap"] for row in staged + resident)
    print(f"largest gap with both simulated: {worst:.1%}")
    if options.json:
        document = {
            "staged": staged,
            "resident": resident,
            "halved": changes,
            "real_host": real_host,
            "largest_gap_both_simulated": worst,
        }
        write_json(options.json, document)


if __name__ == "__main__":
    main()
