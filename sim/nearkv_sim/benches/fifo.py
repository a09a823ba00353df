"""FIFOs and the skid buffer: order, capacity, throughput, reset."""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from nearkv_sim.module_bench import ModuleBench

CAPACITY = {"fifo": 8, "ram_fifo": 18, "skid": 2}
LATENCY = {"fifo": 1, "ram_fifo": 2, "skid": 1}


async def begin(dut: Any, name: str) -> tuple[ModuleBench, Any]:
    bench, unit = ModuleBench(dut), getattr(dut, name)
    await bench.reset([unit.in_valid, unit.out_ready, unit.in_data])
    return bench, unit


@cocotb.test()
@cocotb.parametrize(name=list(CAPACITY), gaps=[0.0, 0.4], stalls=[0.0, 0.4])
async def keeps_order(dut: Any, name: str, gaps: float, stalls: float) -> None:
    """What goes in comes out, in order, whatever the gaps; without gaps one entry a cycle."""
    bench, unit = await begin(dut, name)
    values = [bench.random.randrange(1 << 16) for _ in range(400)]
    cocotb.start_soon(bench.send(unit.in_valid, unit.in_ready, [{unit.in_data: v} for v in values], gaps))
    limit = 400 + LATENCY[name] + 2 if gaps == stalls == 0 else 4000
    receive = bench.receive(unit.out_valid, unit.out_ready, 400, lambda: int(unit.out_data.value), stalls)
    assert await bench.within(receive, limit) == values


@cocotb.test()
@cocotb.parametrize(name=list(CAPACITY))
async def fills_to_capacity(dut: Any, name: str) -> None:
    """Without a consumer exactly the capacity is taken; then everything comes out; reset empties."""
    bench, unit = await begin(dut, name)
    taken = 0
    for value in range(30):
        unit.in_data.value, unit.in_valid.value = value, 1
        await ReadOnly()
        ready = bool(unit.in_ready.value)
        await RisingEdge(bench.clk)
        if not ready:
            break
        taken += 1
        unit.in_valid.value = 0
        await RisingEdge(bench.clk)
    unit.in_valid.value = 0
    assert taken == CAPACITY[name]
    if name != "skid":
        await ReadOnly()
        assert int(unit.count.value) == taken
        await RisingEdge(bench.clk)
    items = await bench.receive(unit.out_valid, unit.out_ready, taken - 1, lambda: int(unit.out_data.value))
    assert items == list(range(taken - 1))
    await bench.reset()
    await ReadOnly()
    assert not unit.out_valid.value
    assert unit.in_ready.value
