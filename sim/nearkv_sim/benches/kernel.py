"""The whole kernel against the golden model: every format, random traffic, long requests, golden vectors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import cocotb
import numpy as np

from nearkv_drivers.device import Mode, Run, ScoreRequest, ScoreResult
from nearkv_drivers.wire import ROW_WIDTHS
from nearkv_sim.coverage import BLOCKS, GROUPS, LATENCIES, STALL_SHARES, FunctionalCoverage
from nearkv_sim.kernel_bench import KernelBench
from nearkv_sim.runner import effort
from nearkv_sim.stimulus import Case, Rng, Shape, random_case, random_shape
from nearkv_sim.toolchain import ROOT

COVERAGE = FunctionalCoverage(
    events=(
        "bad block", "block without tokens", "T0 given", "more than one bitmap beat", "more than one sorted chunk",
        "k of 2048", "k above candidates", "runs beyond the run queue", "key base not zero", "no requests",
        "keys at the top of the address space",
    )
)  # fmt: skip


def note(case: Case, shape: Shape, stalls: str, latency: int) -> None:
    """Count a request that came back right."""
    COVERAGE.request(shape, stalls, latency)
    happened = {
        "bad block": len(case.expected.bad) > 0,
        "block without tokens": any((data.reshape(-1)[:32] == 0).all() for _, data in case.keys),
        "T0 given": case.request.initial_total is not None,
        "more than one bitmap beat": shape.blocks > 512,
        "more than one sorted chunk": shape.mode is Mode.TOPK and shape.blocks > max(64, 2 * shape.k),
        "k of 2048": shape.mode is Mode.TOPK and shape.k == 2048,
        "k above candidates": shape.mode is Mode.TOPK and shape.k > len(case.expected.positions),
        "runs beyond the run queue": len(shape.runs) > 32,
    }
    for event in (name for name, did in happened.items() if did):
        COVERAGE.event(event)


async def run_shapes(bench: KernelBench, rng: Rng, shapes: list[Shape], stalls: str, latency: str) -> None:
    """One start over ``shapes`` with the given traffic."""
    band = LATENCIES[latency]
    low, high = sorted(int(rng.integers(band.start, band.stop)) for _ in range(2))
    bench.set_latency(low, high)
    bench.set_stalls(STALL_SHARES[stalls])
    cases = [random_case(rng, shape, bench.place) for shape in shapes]
    await bench.run(cases)
    for case, shape in zip(cases, shapes, strict=True):
        note(case, shape, stalls, high)


def traffic(rng: Rng) -> tuple[str, str]:
    """A class of stalls and one of latency."""
    return str(rng.choice(list(STALL_SHARES))), str(rng.choice(list(LATENCIES)))


async def begin(dut: Any) -> tuple[KernelBench, Rng]:
    """The bench after reset, and this run's random numbers."""
    bench = KernelBench(dut)
    await bench.reset()
    return bench, np.random.default_rng(cocotb.RANDOM_SEED)


@cocotb.test()
async def every_format(dut: Any) -> None:
    """Bits x D x group class x mode, and x number of blocks, each at least once."""
    bench, rng = await begin(dut)
    shapes = []
    for bits, width, mode in product((4, 8), ROW_WIDTHS, Mode):
        blocks = [int(rng.integers(band.start, min(band.stop, 7))) for band in BLOCKS.values()]
        for i, band in enumerate(GROUPS.values()):
            count = blocks[i % len(blocks)]
            runs = (count,) if i % 2 else tuple(1 for _ in range(count))
            shapes.append(Shape(bits, width, int(rng.integers(band.start, band.stop)), mode, runs, 1 + i))
    order = rng.permutation(len(shapes))
    for part in np.array_split(order, 8):
        await run_shapes(bench, rng, [shapes[i] for i in part], "none", "0")


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Batches of random requests under every class of stalls and latency."""
    bench, rng = await begin(dut)
    classes = list(product(STALL_SHARES, LATENCIES))
    for stalls, latency in classes * effort():
        shapes = [random_shape(rng) for _ in range(int(rng.integers(4, 12)))]
        for i, mode in enumerate(Mode):  # both modes in every class
            shapes[i] = Shape(**{**shapes[i].__dict__, "mode": mode})
        await run_shapes(bench, rng, shapes, stalls, latency)


@cocotb.test()
async def long_requests(dut: Any) -> None:
    """Several bitmap beats, many sorted chunks, k up to 2,048, more runs than the run queue holds."""
    bench, rng = await begin(dut)
    shapes = [
        Shape(4, 32, 1, Mode.TOPK, (600,), 64),
        Shape(4, 32, 16, Mode.TOPK, (513,), 100),
        Shape(4, 32, 3, Mode.MASS, (530,), 0),
        Shape(4, 32, 9, Mode.TOPK, (1,) * 80, 2048),
        Shape(8, 32, 8, Mode.TOPK, (1, 700), 2048),
    ]
    await run_shapes(bench, rng, shapes, "none", "1..63")
    await run_shapes(bench, rng, shapes[3:4], *traffic(rng))


@cocotb.test()
async def whole_store(dut: Any) -> None:
    """The largest request that the store holds, with k = 2,048: every row and every merge level is used."""
    bench, rng = await begin(dut)
    await run_shapes(bench, rng, [Shape(4, 32, 1, Mode.TOPK, (4096,), 2048)], "none", "0")


@cocotb.test()
async def address_ranges(dut: Any) -> None:
    """Run addresses count from `keys`; the sum wraps at 2^64; no requests is a request, too."""
    bench, rng = await begin(dut)
    shape = Shape(8, 64, 2, Mode.MASS, (2, 1), 0)
    for base, event in ((0x5_0000_0040, "key base not zero"), (0, "keys at the top of the address space")):
        case = random_case(rng, shape, bench.place if base else top_of_memory())
        await bench.run([case], keys_base=base)
        note(case, shape, "none", 0)
        COVERAGE.event(event)
    await bench.run([])
    COVERAGE.event("no requests")


def top_of_memory() -> Callable[[int], int]:
    """Places runs below 2^64, the first one ending there."""
    end = 2**64

    def place(size: int) -> int:
        nonlocal end
        end -= size
        return end

    return place


@cocotb.test(skip=not (ROOT / "tests" / "vectors" / "loader.py").exists())
async def golden_vectors(dut: Any) -> None:
    """Every golden vector, in both modes."""
    bench, _ = await begin(dut)
    sys.path.insert(0, str(ROOT / "tests"))
    from vectors.loader import load_score, score_vectors

    cases = [vector_case(bench, load_score(path), mode) for path in score_vectors() for mode in Mode]
    assert cases, "no golden vectors found"
    for first in range(0, len(cases), 16):
        await bench.run(cases[first : first + 16])


def vector_case(bench: KernelBench, vector: Any, mode: Mode) -> Case:
    """A golden vector as a request."""
    runs, keys = [], []
    for i, segment in enumerate(vector.segments):
        address = bench.place(segment.blocks.nbytes)
        runs.append(Run(address, len(segment.blocks), vector.c[i], vector.r[i], vector.b[i]))
        keys.append((address, segment.blocks.reshape(-1)))
    request = ScoreRequest(runs, vector.q, vector.bits, mode, vector.k, vector.initial_total)
    expected = (
        ScoreResult(vector.total, vector.bad, vector.positions, vector.priorities)
        if mode is Mode.TOPK
        else ScoreResult(vector.total, vector.bad, log_mass=vector.log_mass)
    )
    return Case(request, tuple(keys), expected)


@cocotb.test()
async def functional_coverage(dut: Any) -> None:
    """Every declared bin was hit by the tests above."""
    del dut
    COVERAGE.save()
    missing = COVERAGE.missing()
    assert not missing, f"{len(missing)} of {len(COVERAGE.declared())} bins without a hit: {missing[:10]}"
