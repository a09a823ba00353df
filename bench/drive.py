"""Drive reads: rate and CPU cost by size and batch, against one thread that calls preadv and the raw sequential rate.

Rounds of all cases alternate within one run, so that the ratios hold on a machine whose disk or load changes. Every
address is read once before anything is timed, because a disk image may be slower at the first touch of a range.

    python bench/drive.py [--folder build/bench] [--size 2GiB] [--json build/bench/drive.json]
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

import nearkv_drivers
from nearkv.files import write_json
from nearkv_drivers import native
from nearkv_drivers.device import ALIGNMENT, Mode, Run, ScoreRequest
from nearkv_drivers.drive_file import DriveFile
from nearkv_drivers.io_engine import DEFAULT_THREADS
from nearkv_drivers.memory import address_of, aligned_buffer
from nearkv_drivers.superblock import SUPERBLOCK_BYTES
from nearkv_drivers.urls import parse_size
from nearkv_drivers.wire import BLOCK_TOKENS

ROUNDS = 9
BATCH = 80
"""Reads per batch: what one layer's decode step asks for."""
SIZES = {"8 KiB": 8 << 10, "16 KiB": 16 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20}
SEQUENTIAL = 64 << 20
"""Bytes per round of the sequential cases."""
SCORED_BLOCKS = 1 << 17
"""INT4 score blocks of head size 64 that the scoring cases run over, 136 MiB."""

Case = Callable[[], int]
"""Performs one round and returns the reads that it made."""


def fill(drive: DriveFile, size: int) -> None:
    """Write ``size`` bytes and read them all once."""
    data = aligned_buffer(SEQUENTIAL)
    data[:] = np.random.default_rng(0).integers(0, 256, data.size, dtype=np.uint8)
    for start in range(0, size, SEQUENTIAL):
        drive.write(start, data).wait()
    for start in range(0, size, SEQUENTIAL):
        drive.read(np.array([start]), data.size, np.array([address_of(data)], np.uint64)).wait()


def scattered(drive: DriveFile, size: int, length: int, rng: np.random.Generator) -> tuple[Case, Case]:
    """One batch of scattered reads through the engine, and the same number one preadv after the other."""
    buffer = aligned_buffer(BATCH * length)
    buffer[:] = 0
    addresses = address_of(buffer) + np.arange(BATCH, dtype=np.uint64) * np.uint64(length)
    views = [memoryview(buffer[i * length : (i + 1) * length]) for i in range(BATCH)]

    order = itertools.cycle(rng.permutation(size // length)[: size // length // BATCH * BATCH].reshape(-1, BATCH))

    def batched() -> int:
        drive.read(next(order) * length, length, addresses).wait()
        return BATCH

    def one_by_one() -> int:
        for offset, view in zip((next(order) * length).tolist(), views, strict=True):
            os.preadv(drive.fileno(), [view], SUPERBLOCK_BYTES + offset)
        return BATCH

    return batched, one_by_one


def sequential(drive: DriveFile, size: int, rng: np.random.Generator) -> tuple[Case, Case]:
    """A long range in one transfer of the engine, and by one thread in calls of 1 MiB."""
    buffer = aligned_buffer(SEQUENTIAL)
    buffer[:] = 0
    address = np.array([address_of(buffer)], np.uint64)
    call = 1 << 20

    def start() -> int:
        return int(rng.integers(0, size // SEQUENTIAL)) * SEQUENTIAL

    def staged() -> int:
        drive.read(np.array([start()]), SEQUENTIAL, address).wait()
        return SEQUENTIAL // call

    def one_thread() -> int:
        first = SUPERBLOCK_BYTES + start()
        for at in range(0, SEQUENTIAL, call):
            os.preadv(drive.fileno(), [memoryview(buffer[at : at + call])], first + at)
        return SEQUENTIAL // call

    return staged, one_thread


def scoring(folder: Path) -> dict[str, float]:
    """GB/s of score blocks through the emulated drive: resident in device DRAM, and in windows of a fourth of it."""
    rng = np.random.default_rng(2)
    segment = native.encode_segment(rng.normal(size=(SCORED_BLOCKS * BLOCK_TOKENS // 16, 64)).astype(np.float32), 4)
    query = native.encode_query(rng.normal(size=(4, 64)).astype(np.float32), segment, 0.125)
    blocks = np.tile(segment.blocks, (16, 1))
    data = aligned_buffer(-(-blocks.size // ALIGNMENT) * ALIGNMENT)
    data[: blocks.size] = blocks.reshape(-1)
    run = Run(0, len(blocks), query.c[0], query.r[0], query.b[0])
    request = ScoreRequest([run], query.q, 4, Mode.TOPK, 64)
    rates = {}
    for name, ddr in (("resident", 2 * data.size), ("windows", data.size // 4)):
        with nearkv_drivers.open(f"emulated:{folder}/bench.drive?ddr={ddr}") as device:
            device.write(0, data, score_blocks=True).wait()
            device.submit([request]).wait()
            times = []
            for _ in range(ROUNDS):
                start = time.perf_counter()
                device.submit([request]).wait()
                times.append(time.perf_counter() - start)
            rates[name] = blocks.size / statistics.median(times) / 1e9
    return rates


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(cases: dict[str, tuple[Case, int]]) -> dict[str, dict[str, float]]:
    """Medians over alternating rounds: reads per second, GB/s, CPU seconds per GiB."""
    samples: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for _ in range(ROUNDS):
        for name, (case, length) in cases.items():
            repeats = max(1, (8 << 20) // (length * BATCH))
            cpu, start = cpu_seconds(), time.perf_counter()
            reads = sum(case() for _ in range(repeats))
            elapsed = time.perf_counter() - start
            gib = reads * length / 2**30
            samples[name].append((reads / elapsed, reads * length / elapsed / 1e9, (cpu_seconds() - cpu) / gib))
    return {
        name: dict(
            zip(("iops", "gb_per_s", "cpu_s_per_gib"), map(statistics.median, zip(*rows, strict=True)), strict=True)
        )
        for name, rows in samples.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/bench"))
    parser.add_argument("--size", type=parse_size, default=2 << 30)
    parser.add_argument("--json", type=Path, default=Path("build/bench/drive.json"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    with DriveFile(arguments.folder / "bench.drive") as drive:
        fill(drive, arguments.size)
        cases: dict[str, tuple[Case, int]] = {}
        for name, length in SIZES.items():
            batched, single = scattered(drive, arguments.size, length, rng)
            cases[f"{name} x {BATCH}, batch"] = batched, length
            cases[f"{name} x {BATCH}, one preadv thread"] = single, length
        staged, one_thread = sequential(drive, arguments.size, rng)
        cases["sequential, staged"] = staged, 1 << 20
        cases["sequential, one preadv thread"] = one_thread, 1 << 20
        results = measure(cases)
        direct = drive.direct_io
    raw = max(results["sequential, staged"]["gb_per_s"], results["sequential, one preadv thread"]["gb_per_s"])
    print(f"direct I/O: {direct}; {DEFAULT_THREADS} threads; shares are of the best sequential rate of this run")
    print(f"{'case':32} {'IOPS':>8} {'GB/s':>6} {'share':>6} {'CPU s/GiB':>10}")
    for name, row in results.items():
        row["share_of_sequential"] = row["gb_per_s"] / raw
        print(
            f"{name:32} {row['iops']:8.0f} {row['gb_per_s']:6.2f} {row['share_of_sequential']:6.2f} "
            f"{row['cpu_s_per_gib']:10.3f}"
        )
    scored = scoring(arguments.folder)
    for name, rate in scored.items():
        print(f"scoring, {name}: {rate:.2f} GB/s of score blocks, {rate / raw:.2f} of the sequential rate")
    report = {"direct_io": direct, "threads": DEFAULT_THREADS, "cases": results, "scoring_gb_per_s": scored}
    write_json(arguments.json, report)


if __name__ == "__main__":
    main()
