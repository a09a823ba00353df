"""Stream totals: log-masses folded in order from T0, heads in any interleaving."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from nearkv.contract import EMPTY, fold_total
from nearkv_sim.module_bench import ModuleBench, packed


def random_masses(rng: np.random.Generator, count: int) -> np.ndarray:
    """Log-masses near each other, rising, or anywhere; some are EMPTY."""
    style = int(rng.integers(3))
    values = [
        rng.integers(-3000, 3000, count),
        np.sort(rng.integers(-(2**20), 2**20, count)),
        rng.integers(-(2**31) + 1, 2**31, count),
    ][style]
    return np.where(rng.random(count) < 0.1, EMPTY, values)


@cocotb.test()
@cocotb.parametrize(group=[1, 2, 5, 8, 16], gaps=[0.0, 0.5])
async def totals(dut: Any, group: int, gaps: float) -> None:
    """Several requests after each other; heads of a block follow each other, as the block unit sends them."""
    bench, unit = ModuleBench(dut), dut.fold
    await bench.reset([unit.start, unit.mass_valid, unit.finish])
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    for turn in range(6):
        blocks = int(rng.integers(1, 60))
        masses = np.stack([random_masses(rng, blocks) for _ in range(group)])
        initial = np.where(rng.random(16) < 0.4, EMPTY, rng.integers(-5000, 5000, 16))
        if turn == 5:
            masses[:], initial[:] = EMPTY, EMPTY
        unit.group.value = group
        unit.initial_total.value = packed([(int(v), 32) for v in reversed(initial)])
        unit.start.value = 1
        await RisingEdge(bench.clk)
        unit.start.value = 0
        items = [
            {unit.mass_value: int(masses[h, i]) % 2**32, unit.mass_head: h} for i in range(blocks) for h in range(group)
        ]
        await bench.within(bench.send(unit.mass_valid, unit.mass_ready, items, gaps), 30 + 12 * len(items))
        unit.finish.value = 1
        await RisingEdge(bench.clk)
        unit.finish.value = 0
        for _ in range(group + 12):
            await RisingEdge(bench.clk)
        assert unit.totals_valid.value
        found = [unit.totals[h].value.to_signed() for h in range(16)]
        assert found == [fold_total(int(initial[h]), masses[h]) for h in range(group)] + [0] * (16 - group)
