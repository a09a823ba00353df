"""What goes wrong: the kernel names it, never hangs, and works again afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from nearkv.contract import block_bytes
from nearkv_drivers.device import Mode
from nearkv_sim.axi_memory import DECERR, OKAY, SLVERR, MemoryModel
from nearkv_sim.commands import REQUEST_DTYPE, RUN_DTYPE
from nearkv_sim.coverage import FunctionalCoverage
from nearkv_sim.kernel_bench import KernelBench, Start
from nearkv_sim.registers import STATUS
from nearkv_sim.stimulus import Case, Rng, Shape, random_case, random_shape

COVERAGE = FunctionalCoverage(
    events=(
        *(f"status {name}" for name in STATUS if name != "OK"),
        "read error in a record", "read error in queries", "read error in a descriptor", "write error in a header",
        "write error in the record", "silent reads", "silent writes", "silent commands", "start while wedged",
        "reset while streaming", "reset while selecting", "unaligned results pointer",
    )
)  # fmt: skip
LIMIT = 60_000
"""Cycles within which every run must end, however it goes wrong."""


async def begin(dut: Any) -> tuple[KernelBench, Rng]:
    bench = KernelBench(dut)
    await bench.reset()
    return bench, np.random.default_rng(cocotb.RANDOM_SEED)


def some_cases(bench: KernelBench, rng: Rng, count: int = 3) -> list[Case]:
    return [random_case(rng, random_shape(rng), bench.place) for _ in range(count)]


async def still_works(bench: KernelBench, rng: Rng) -> None:
    """A start after the trouble gives right results."""
    await bench.run(some_cases(bench, rng, 2), LIMIT)


async def expect(
    bench: KernelBench, start: Start, requests: int, status: str, failed: int, record: bool = True
) -> None:
    """Run ``start``, which must end with ``status`` at request ``failed``."""
    await bench.launch(start, requests)
    await bench.finish(LIMIT)
    assert await bench.read("status") == STATUS[status], f"status register {await bench.read('status')}, not {status}"
    assert await bench.read("failed") == failed
    assert await bench.read("completed") == failed
    found = bench.completion(start)
    if record:
        assert (found["status"], found["failed"], found["completed"]) == (STATUS[status], failed, failed), found
    else:
        assert not any(found.values()), f"no record was expected: {found}"
    COVERAGE.event(f"status {status}")


REQUEST_FAULTS: list[tuple[str, str, int]] = [
    ("BITS", "bits", 0), ("BITS", "bits", 5), ("BITS", "bits", 12), ("BITS", "bits", 255),
    ("WIDTH", "width32", 0), ("WIDTH", "width32", 3), ("WIDTH", "width32", 16),
    ("GROUP", "group", 0), ("GROUP", "group", 17), ("GROUP", "group", 255),
    ("MODE", "mode", 2), ("MODE", "mode", 129), ("TOP_K", "k", 0), ("TOP_K", "k", 2049), ("TOP_K", "k", 2**31),
    ("BLOCKS", "blocks", 0), ("BLOCKS", "blocks", 4097), ("BLOCKS", "blocks", 2**31 + 1),
    ("RUNS", "runs", 0), ("RUNS", "runs", 2**31), ("RUNS", "runs", 5),
    ("ADDRESS", "query_offset", 1), ("ADDRESS", "descriptor_offset", 32), ("ADDRESS", "result_offset", 8),
    ("ADDRESS", "result_offset", 0),
]  # fmt: skip


@cocotb.test()
async def bad_requests(dut: Any) -> None:
    """Each wrong field of a request record, in the first or a later request; the ones before it complete."""
    bench, rng = await begin(dut)
    for status, name, value in REQUEST_FAULTS:
        cases = some_cases(bench, rng)
        victim = int(rng.integers(3))
        shape = Shape(8, 64, 3, Mode.TOPK, (2, 2), 4)
        cases[victim] = random_case(rng, shape, bench.place)
        start = bench.load(cases)
        record = np.frombuffer(bench.memory.read(start.commands + 64 * victim, 64), REQUEST_DTYPE).copy()
        record[name] = record[name] + value if name.endswith("offset") and value else value
        bench.memory.write(start.commands + 64 * victim, record.tobytes())
        await expect(bench, start, 3, status, victim)
        bench.check(start, cases[:victim])
    await still_works(bench, rng)


@cocotb.test()
async def more_blocks_than_rows_of_two_halves(dut: Any) -> None:
    """Above eight heads the store holds half as many blocks."""
    bench, rng = await begin(dut)
    case = random_case(rng, Shape(8, 64, 9, Mode.TOPK, (1,), 1), bench.place)
    start = bench.load([case])
    record = np.frombuffer(bench.memory.read(start.commands, 64), REQUEST_DTYPE).copy()
    record["blocks"] = 2049
    bench.memory.write(start.commands, record.tobytes())
    await expect(bench, start, 1, "BLOCKS", 0)


@cocotb.test()
async def bad_descriptors(dut: Any) -> None:
    """Zero blocks, too few, too many, a descriptor too many, an unaligned address, at any place in the list."""
    bench, rng = await begin(dut)
    faults: list[tuple[str, str, Callable[[int], int]]] = [
        ("RUNS", "blocks", lambda blocks: 0),
        ("RUNS", "blocks", lambda blocks: blocks + 1),
        ("RUNS", "blocks", lambda blocks: blocks - 1),
        ("RUNS", "blocks", lambda blocks: blocks + 2**20),
        ("ADDRESS", "address", lambda address: address + 4),
    ]
    for status, name, change in faults * 2:
        cases = [*some_cases(bench, rng, 1), random_case(rng, Shape(4, 128, 2, Mode.MASS, (2, 3, 2), 0), bench.place)]
        start = bench.load(cases)
        record = np.frombuffer(bench.memory.read(start.commands + 64, 64), REQUEST_DTYPE)
        address = start.commands + int(record["descriptor_offset"][0]) + 128 * int(rng.integers(3))
        entry = np.frombuffer(bench.memory.read(address, 128), RUN_DTYPE).copy()
        entry[name] = change(int(entry[name][0]))
        bench.memory.write(address, entry.tobytes())
        await expect(bench, start, 2, status, 1)
        bench.check(start, cases[:1])
    # All blocks are there after two descriptors, and a third one follows.
    case = random_case(rng, Shape(4, 128, 2, Mode.MASS, (2, 3, 2), 0), bench.place)
    start = bench.load([case])
    record = np.frombuffer(bench.memory.read(start.commands, 64), REQUEST_DTYPE).copy()
    record["blocks"] = 5
    bench.memory.write(start.commands, record.tobytes())
    await expect(bench, start, 1, "RUNS", 0)
    await still_works(bench, rng)


@cocotb.test()
async def unaligned_pointers(dut: Any) -> None:
    """Pointers are refused like offsets; an unaligned results pointer leaves no record."""
    bench, rng = await begin(dut)
    cases = some_cases(bench, rng, 1)
    start = bench.load(cases)
    await expect(bench, replace(start, keys=start.keys + 8), 1, "ADDRESS", 0)
    shifted = replace(start, results=bench.place(64 * 64) + 4)
    await expect(bench, shifted, 1, "ADDRESS", 0, record=False)
    COVERAGE.event("unaligned results pointer")
    await still_works(bench, rng)


def fail_at(bad: int, response: int) -> Callable[[int], int]:
    """Answer ``response`` at address ``bad``, and OKAY elsewhere."""
    return lambda address: response if address == bad else OKAY


@cocotb.test()
async def memory_errors(dut: Any) -> None:
    """SLVERR and DECERR on records, queries, descriptors, keys and results end the run with the right status."""
    bench, rng = await begin(dut)
    for turn, response in enumerate((SLVERR, DECERR, SLVERR)):
        bench.set_stalls(0.2 * turn)
        cases = [*some_cases(bench, rng, 1), random_case(rng, Shape(8, 128, 3, Mode(turn % 2), (2, 2), 3), bench.place)]
        start = bench.load(cases)
        fields = np.frombuffer(bench.memory.read(start.commands + 64, 64), REQUEST_DTYPE)[0]
        query, runs = (start.commands + int(fields[name]) for name in ("query_offset", "descriptor_offset"))
        key = cases[1].request.runs[int(rng.integers(2))].offset + 64 * int(rng.integers(65))
        result = start.results + int(fields["result_offset"])
        places: list[tuple[str, MemoryModel, int, str]] = [
            ("COMMAND_READ", bench.fetch, start.commands + 64, "read error in a record"),
            ("COMMAND_READ", bench.fetch, query + 64 * int(rng.integers(2)), "read error in queries"),
            ("COMMAND_READ", bench.fetch, runs + 64 * int(rng.integers(4)), "read error in a descriptor"),
            ("KEY_READ", bench.keys, key, "status KEY_READ"),
            ("RESULT_WRITE", bench.write, result + 64 * int(rng.integers(2)), "write error in a header"),
        ]
        for status, memory, address, event in places:
            bench.memory.write(start.results, bytes(64))
            memory.error_at = fail_at(address, response)
            await expect(bench, start, 2, status, 1)
            memory.error_at = lambda at: OKAY
            bench.check(start, cases[:1])
            COVERAGE.event(event)
        bench.memory.write(start.results, bytes(64))
        bench.write.error_at = fail_at(start.results, response)
        await bench.launch(start, 2)
        await bench.finish(LIMIT)
        assert await bench.read("status") == STATUS["RESULT_WRITE"]
        bench.write.error_at = lambda at: OKAY
        bench.check(start, cases)
        COVERAGE.event("write error in the record")
        await still_works(bench, rng)


@cocotb.test()
async def silent_memory(dut: Any) -> None:
    """A memory that does not answer ends the run by watchdog; once it answers, the kernel works again."""
    bench, rng = await begin(dut)
    silences = [(bench.keys, "silent reads"), (bench.write, "silent writes"), (bench.fetch, "silent commands")]
    for memory, event in silences:
        cases = some_cases(bench, rng, 2)
        start = bench.load(cases)
        memory.silent = True
        await expect(bench, start, 2, "TIMEOUT", 0, record=False)
        COVERAGE.event(event)
        await bench.launch(start, 2)
        await bench.finish(LIMIT)
        assert await bench.read("status") == STATUS["TIMEOUT"], "a start with transactions outstanding"
        COVERAGE.event("start while wedged")
        memory.silent = False
        await still_works(bench, rng)


@cocotb.test()
async def unanswered_addresses(dut: Any) -> None:
    """Address channels that are never accepted end by watchdog, too."""
    bench, rng = await begin(dut)
    for channel in (bench.keys.ar, bench.fetch.ar, bench.write.aw, bench.write.w):
        start = bench.load(some_cases(bench, rng, 1))
        channel.pause = True
        await expect(bench, start, 1, "TIMEOUT", 0, record=False)
        channel.pause = False
        await ClockCycles(dut.ap_clk, 20)
        await still_works(bench, rng)


async def last_key_beat(dut: Any, beats: int) -> None:
    """Wait until the memory has given so many key beats; the kernel takes one a cycle."""
    while beats:
        await RisingEdge(dut.ap_clk)
        beats -= int(dut.m_axi_keys_rvalid.value and dut.m_axi_keys_rready.value)


@cocotb.test()
async def reset_in_mid_run(dut: Any) -> None:
    """A reset at any time leaves a kernel that answers the next start rightly."""
    bench, rng = await begin(dut)
    bench.set_latency(0, 60)
    shape = Shape(4, 64, 5, Mode.TOPK, (40,), 64)
    for turn in range(12):
        cases = [random_case(rng, shape, bench.place), *some_cases(bench, rng, 2)]
        await bench.launch(bench.load(cases), 3)
        if turn % 2:
            await ClockCycles(dut.ap_clk, int(rng.integers(40, 600)))
            COVERAGE.event("reset while streaming")
        else:
            await last_key_beat(dut, shape.blocks * block_bytes(shape.width, shape.bits) // 64)
            # The last log-mass takes about 40 cycles, then reading, sorting and merging one chunk as many each.
            await ClockCycles(dut.ap_clk, int(rng.integers(40, 140)))
            COVERAGE.event("reset while selecting")
        await bench.reset(int(rng.integers(1, 5)))
        assert await bench.read("control") == 0b100, "idle after reset"
        assert dut.interrupt.value == 0
        await still_works(bench, rng)


@cocotb.test()
async def functional_coverage(dut: Any) -> None:
    """Every declared event happened in the tests above."""
    del dut
    missing = [name for name in COVERAGE.missing() if name.startswith("event:")]
    assert not missing, f"never happened: {missing}"
