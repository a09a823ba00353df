"""x = sat32(((dot * m * c) >> r) + b), for two tokens and eight heads, at the ends of every range."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ReadOnly, RisingEdge

from nearkv.contract.kernel import token_scores
from nearkv_sim.benches.mac import OP_WIDTHS, extremes
from nearkv_sim.module_bench import ModuleBench, packed


@cocotb.test()
@cocotb.parametrize(two_slots=[0, 1])
async def scores(dut: Any, two_slots: int) -> None:
    """Random and extreme operands from four coefficient entries, several times over, one pass a cycle."""
    bench, unit, store = ModuleBench(dut), dut.scale, dut.coefficients
    await bench.reset([unit.dot_valid, store.write])
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    for _ in range(5):
        await some_passes(bench, unit, store, rng, two_slots)


async def some_passes(bench: ModuleBench, unit: Any, store: Any, rng: np.random.Generator, two_slots: int) -> None:
    """New coefficients, and 80 passes with them."""
    c = extremes(rng, 0, 65535, (4, 16))
    r = extremes(rng, 0, 63, (4, 16))
    b = extremes(rng, -(2**31), 2**31 - 1, (4, 16))
    for entry in range(4):
        run = [(int(b[entry, h]), 32) for h in reversed(range(16))] + [
            (int(c[entry, h]), 16) for h in reversed(range(16))
        ]
        run += [(int(r[entry, h]), 6) for h in reversed(range(16))] + [(1, 17), (1, 1), (0, 4)]
        store.run.value, store.write.value, store.write_entry.value = packed(run), 1, entry
        await RisingEdge(bench.clk)
    store.write.value = 0
    unit.heads_used.value, unit.two_slots.value = 255, two_slots

    expected: list[list[int]] = []
    found: list[list[int]] = []

    async def watch() -> None:
        while True:
            await ReadOnly()
            if unit.x_valid.value:
                slots = [unit.x0, unit.x1][: 1 + two_slots]
                found.append([slot[h].value.to_signed() for slot in slots for h in range(8)])
            await RisingEdge(bench.clk)

    watcher = cocotb.start_soon(watch())
    for _ in range(80):
        dots = extremes(rng, -(2**22), 2**22, (2, 8))
        m = extremes(rng, 0, 255, (2,))
        entry, half = int(rng.integers(4)), int(rng.integers(2))
        op = zip((0, half, 0, entry, 0, 0, int(m[0]), int(m[1]), 1, 1, 1), OP_WIDTHS, strict=True)
        unit.dot_op.value, unit.dot_valid.value = packed(list(op)), 1
        for slot, port in enumerate((unit.dot0, unit.dot1)):
            for h in range(8):
                port[h].value = int(dots[slot, h])
        heads = slice(8 * half, 8 * half + 8)
        row = []
        for slot in range(1 + two_slots):
            for h in range(8):
                # A query of 1 and a key of one element, the dot product itself.
                one, key = np.array([[1]]), dots[slot, h].reshape(1, 1, 1)
                crb = (values[entry, heads][h : h + 1] for values in (c, r, b))
                x = token_scores(one, key, m[slot].reshape(1, 1), *crb)
                row.append(int(x[0, 0, 0]))
        expected.append(row)
        await RisingEdge(bench.clk)
        if rng.random() < 0.2:
            unit.dot_valid.value = 0
            await RisingEdge(bench.clk)
    unit.dot_valid.value = 0
    for _ in range(8):
        await RisingEdge(bench.clk)
    watcher.cancel()
    assert found == expected
