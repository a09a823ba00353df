"""Speed of the native scorer beside what memory and two other int8 scorers deliver, in one run.

Every case scores keys that lie in memory, far more than the last-level cache holds:

- native: CRC check, dot products, log-masses and totals of all blocks (mode MASS);
- torch_int_mm: ``torch._int_mm`` of the same int8 keys [tokens, d] with the G queries, dot products only (it wants at
  least 8 columns on some builds; queries are padded with zeros where it refuses fewer);
- faiss: ``IndexScalarQuantizer`` (QT_8bit, inner product) searching the 64 best of the same number of keys.

The contestants and two plain reads of the same bytes (maximum of 64-bit words, CRC-32C; on every processor, the faster
one of the round counts) take turns in every round; the figures are medians over the rounds, and ratios are medians of
the rounds' ratios, because other work on the machine slows a whole round rather than one contestant. GB/s count the
bytes that a contestant reads for a key: native with headers, the others without.

    python bench/score.py --json build/bench/score.json
"""

from __future__ import annotations

import argparse
import mmap
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import faiss
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from nearkv.files import write_json
from nearkv_drivers import native
from nearkv_drivers.native import KernelRequest, KernelRun
from nearkv_drivers.wire import Segment

CASES = [(bits, head_dim, group) for bits in (8, 4) for head_dim in (64, 128, 256) for group in (1, 4, 8)]
NEIGHBOURS = 64
SAMPLE_TOKENS = 8192
"""Different keys; the buffers repeat them."""
WIDTH = 100
"""Columns that the table needs."""
READ_BYTES = 1 << 18
"""Bytes that a plain read takes at a time."""

Contestant = Callable[[], object]


def in_huge_pages(sample: np.ndarray[Any, Any], repeats: int) -> np.ndarray[Any, Any]:
    """``sample`` repeated along its first axis, in mapped memory with huge pages where there are any."""
    memory = mmap.mmap(-1, sample.nbytes * repeats)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    many = np.frombuffer(memory, sample.dtype).reshape(repeats * len(sample), *sample.shape[1:])
    for i in range(repeats):
        many[i * len(sample) : (i + 1) * len(sample)] = sample
    return many


@dataclass(frozen=True)
class Keys:
    """What one head size is scored on."""

    int8: torch.Tensor
    index: Any
    segments: dict[int, Segment]


def make_keys(head_dim: int, megabytes: int) -> Keys:
    """Keys of head size ``head_dim`` in every contestant's form, about ``megabytes`` at 8 bits."""
    rng = np.random.default_rng(head_dim)
    sample = rng.standard_normal((SAMPLE_TOKENS, head_dim)).astype(np.float32)
    repeats = -(-megabytes * 2**20 // (SAMPLE_TOKENS * head_dim))
    segments = {}
    for bits in (8, 4):
        one = native.encode_segment(sample, bits)
        blocks = in_huge_pages(one.blocks, repeats)
        segments[bits] = Segment(blocks, one.centre, one.scale, bits, head_dim, SAMPLE_TOKENS * repeats)
    index = faiss.IndexScalarQuantizer(head_dim, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    index.train(sample)
    for _ in range(repeats):
        index.add(sample)
    quantised = np.clip(np.rint(sample * 30), -127, 127).astype(np.int8)
    return Keys(torch.from_numpy(in_huge_pages(quantised, repeats)), index, segments)


def read_of(data: np.ndarray[Any, Any], threads: ThreadPoolExecutor, count: int) -> Contestant:
    """Reads every byte of ``data`` on ``count`` threads."""
    words = data.reshape(-1)[: data.size // 8 * 8].view(np.int64)
    parts = np.array_split(words, count)
    return lambda: list(threads.map(np.max, parts))


def checksum_of(data: np.ndarray[Any, Any]) -> Contestant:
    """Reads every byte of ``data`` once more, at what CRC-32C takes."""
    rows = data.reshape(-1)[: data.size // READ_BYTES * READ_BYTES].reshape(-1, READ_BYTES)
    return lambda: native.crc32c_rows(rows)


def int_mm_of(keys: torch.Tensor, queries: np.ndarray[Any, Any]) -> Contestant:
    """``torch._int_mm`` of the keys with the queries, padded to as many columns as this build needs."""
    for columns in (len(queries), 8, 16, 32):
        padded = np.zeros((columns, keys.shape[1]), np.int8)
        padded[: len(queries)] = np.clip(np.rint(queries * 30), -127, 127)[:columns]
        right = torch.from_numpy(padded).T.contiguous()
        try:
            torch._int_mm(keys[:64], right)
        except RuntimeError:
            continue
        return lambda: torch._int_mm(keys, right)
    raise RuntimeError("torch._int_mm of this build takes none of the tried shapes")


def native_of(segment: Segment, queries: np.ndarray[Any, Any]) -> Contestant:
    """One kernel start that scores the whole segment."""
    query = native.encode_query(queries, segment, segment.head_dim**-0.5)
    run = KernelRun(segment.blocks, query.c[0], query.r[0], query.b[0])
    request = KernelRequest([run], query.q, segment.bits)
    return lambda: native.start([request]).wait()


def seconds(contestant: Contestant) -> float:
    """Time of one turn."""
    begin = time.perf_counter()
    contestant()
    return time.perf_counter() - begin


def run_case(bits: int, group: int, keys: Keys, rounds: int, threads: ThreadPoolExecutor) -> dict[str, Any]:
    """All contestants of one case, in turns."""
    segment, cpus = keys.segments[bits], len(os.sched_getaffinity(0))
    head_dim, tokens = segment.head_dim, segment.tokens
    queries = np.random.default_rng(group).standard_normal((group, head_dim)).astype(np.float32)
    contestants: dict[str, tuple[Contestant, int]] = {
        "read": (read_of(segment.blocks, threads, cpus), segment.blocks.nbytes),
        "checksum": (checksum_of(segment.blocks), segment.blocks.nbytes),
        "native": (native_of(segment, queries), segment.blocks.nbytes),
        "native_int8": (native_of(keys.segments[8], queries), keys.segments[8].blocks.nbytes),
        "torch_int_mm": (int_mm_of(keys.int8, queries), tokens * head_dim),
        "faiss": (lambda: keys.index.search(queries, NEIGHBOURS), tokens * head_dim),
    }
    if bits == 8:
        del contestants["native_int8"]
    for contestant, _ in contestants.values():
        contestant()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, (contestant, _) in contestants.items():
            times[name].append(seconds(contestant))
    times["read"] = [min(pair) for pair in zip(times["read"], times["checksum"], strict=True)]

    def rate(name: str) -> list[float]:
        return [contestants[name][1] / t / 1e9 for t in times[name]]

    def ratio(over: list[float], under: list[float]) -> float:
        return median(a / b for a, b in zip(over, under, strict=True))

    result: dict[str, Any] = {
        "bits": bits,
        "head_dim": head_dim,
        "group": group,
        "megabytes": segment.blocks.nbytes / 1e6,
        "gb_per_s": {name: median(rate(name)) for name in ("native", "torch_int_mm", "faiss")},
        "read_gb_per_s": median(rate("read")),
        "native_tokens_per_s": median(tokens / t for t in times["native"]),
        "native_to_read": ratio(rate("native"), rate("read")),
        "native_to_torch_int_mm": ratio(rate("native"), rate("torch_int_mm")),
        "native_to_faiss": ratio(rate("native"), rate("faiss")),
        "tokens_native_to_torch_int_mm": ratio(times["torch_int_mm"], times["native"]),
    }
    if bits == 4:
        result["tokens_int4_to_int8"] = ratio(times["native_int8"], times["native"])
    return result


def show(results: list[dict[str, Any]], console: Console) -> None:
    """The table that a person reads."""
    table = Table(title="Scoring keys in memory; GB/s of key bytes, medians; ratios within a round")
    for heading in ("bits", "d", "G", "read", "native", "int_mm", "faiss", "/read", "/int_mm", "/faiss", "M tokens/s"):
        table.add_column(heading, justify="right")
    for each in results:
        rates = each["gb_per_s"]
        figures = [each["read_gb_per_s"], rates["native"], rates["torch_int_mm"], rates["faiss"]]
        ratios = [each["native_to_read"], each["native_to_torch_int_mm"], each["native_to_faiss"]]
        table.add_row(
            *(str(each[key]) for key in ("bits", "head_dim", "group")),
            *(f"{value:.1f}" for value in figures),
            *(f"{value:.2f}" for value in ratios),
            f"{each['native_tokens_per_s'] / 1e6:.0f}",
        )
    console.print(table)
    for each in results:
        if "tokens_int4_to_int8" in each:
            console.print(
                f"d={each['head_dim']} G={each['group']}: INT4 scores {each['tokens_int4_to_int8']:.2f} times as many "
                "tokens per second as INT8"
            )


def main() -> None:
    """Run every case, print the table and write the JSON."""
    parser = argparse.ArgumentParser(description="Speed of the native scorer")
    parser.add_argument("--json", type=Path, default=Path("build/bench/score.json"))
    parser.add_argument("--megabytes", type=int, default=256, help="INT8 key bytes per case")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    cpus = len(os.sched_getaffinity(0))
    torch.set_num_threads(cpus)
    faiss.omp_set_num_threads(cpus)
    results = []
    with ThreadPoolExecutor(cpus) as threads:
        for head_dim in sorted({case[1] for case in CASES}):
            keys = make_keys(head_dim, arguments.megabytes)
            results += [
                run_case(bits, group, keys, arguments.rounds, threads)
                for bits, case_dim, group in CASES
                if case_dim == head_dim
            ]
    results.sort(key=lambda each: (-each["bits"], each["head_dim"], each["group"]))
    console = Console()
    show(results, Console(width=max(console.width, WIDTH)))
    report = {
        "read_bandwidth": median(each["read_gb_per_s"] for each in results if each["bits"] == 8),
        "threads": cpus,
        "isa": native.isas()[0],
        "cases": results,
    }
    write_json(arguments.json, report)


if __name__ == "__main__":
    main()
