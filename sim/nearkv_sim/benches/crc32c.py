"""CRC-32C of score blocks at one beat a cycle, against the library."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ReadOnly, RisingEdge

from nearkv.contract import seal_blocks
from nearkv_sim.module_bench import ModuleBench

BEATS = (9, 17, 33, 65, 129)


@cocotb.test()
@cocotb.parametrize(gaps=[0.0, 0.3])
async def blocks(dut: Any, gaps: float) -> None:
    """Blocks of every length back to back; every third one has a bit flipped somewhere."""
    bench, unit = ModuleBench(dut), dut.crc32c
    await bench.reset([unit.beat_valid])
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    sent, expected = [], []
    for i in range(40):
        block = rng.integers(0, 256, (1, 64 * BEATS[i % len(BEATS)]), np.uint8)
        seal_blocks(block)
        if i % 3 == 2:
            bit = int(rng.integers(block.size * 8))
            block[0, bit // 8] ^= 1 << bit % 8
        expected.append(i % 3 != 2)
        beats = block.reshape(-1, 64)
        sent += [
            (int.from_bytes(beat.tobytes(), "little"), n == 0, n == len(beats) - 1) for n, beat in enumerate(beats)
        ]

    found: list[bool] = []

    async def watch() -> None:
        while len(found) < len(expected):
            await ReadOnly()
            if unit.result_valid.value:
                found.append(bool(unit.match.value))
            await RisingEdge(bench.clk)

    watcher = cocotb.start_soon(watch())
    for beat, first, last in sent:
        while bench.random.random() < gaps:
            unit.beat_valid.value = 0
            await RisingEdge(bench.clk)
        unit.beat.value, unit.first.value, unit.last.value, unit.beat_valid.value = beat, int(first), int(last), 1
        await RisingEdge(bench.clk)
    unit.beat_valid.value = 0
    await bench.within(watcher, 20)
    assert found == expected
