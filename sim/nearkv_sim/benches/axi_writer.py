"""Write master: burst rules, store and forward, responses, errors, flush."""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from nearkv_sim.module_bench import ModuleBench, packed

MAX_BURST = 16


class Slave:
    """Takes writes into a dictionary; responses come after a latency."""

    def __init__(self, bench: ModuleBench, unit: Any, latency: int, stalls: float) -> None:
        self.bench, self.unit, self.latency, self.stalls = bench, unit, latency, stalls
        self.memory: dict[int, int] = {}
        self.bad_address = -1
        self.starved = 0
        cocotb.start_soon(self.run())

    async def run(self) -> None:
        unit, random = self.unit, self.bench.random
        bursts: deque[list[int]] = deque()  # next address, beats left, response
        responses: deque[tuple[int, int]] = deque()
        cycle, offered = 0, False
        while True:
            unit.awready.value = int(random.random() >= self.stalls)
            unit.wready.value = int(bool(bursts) and random.random() >= self.stalls)
            if not offered and responses and responses[0][0] <= cycle:
                unit.bvalid.value, unit.bresp.value, offered = 1, responses[0][1], True
            await ReadOnly()
            self.starved += bool(bursts) and not unit.wvalid.value
            if unit.wvalid.value and unit.wready.value:
                burst = bursts[0]
                self.memory[burst[0]] = int(unit.wdata.value)
                burst[2] = 3 if burst[0] == self.bad_address else burst[2]
                burst[0], burst[1] = burst[0] + 64, burst[1] - 1
                assert bool(unit.wlast.value) == (burst[1] == 0), "wlast in the wrong place"
                if burst[1] == 0:
                    responses.append((cycle + self.latency, burst[2]))
                    bursts.popleft()
            if unit.awvalid.value and unit.awready.value:
                address, beats = int(unit.awaddr.value), int(unit.awlen.value) + 1
                assert beats <= MAX_BURST
                assert address // 4096 == (address + 64 * beats - 1) // 4096, "crosses a page"
                bursts.append([address, beats, 0])
            if offered:
                responses.popleft()
                offered = False
            await RisingEdge(self.bench.clk)
            unit.bvalid.value = 0
            cycle += 1


async def begin(dut: Any, latency: int, stalls: float) -> tuple[ModuleBench, Any, Slave]:
    bench, unit = ModuleBench(dut), dut.axi_writer
    await bench.reset([unit.flush, unit.command_valid, unit.data_valid, unit.awready, unit.wready, unit.bvalid])
    return bench, unit, Slave(bench, unit, latency, stalls)


async def idle(bench: ModuleBench, unit: Any, cycles: int = 3000) -> None:
    for _ in range(cycles):
        await ReadOnly()
        done = bool(unit.idle.value)
        await RisingEdge(bench.clk)
        if done:
            return
    raise AssertionError("the writer did not become idle")


async def write(bench: ModuleBench, unit: Any, transfers: list[tuple[int, list[int]]], gaps: float) -> None:
    """Commands and data, each at its own pace."""
    items = [{unit.command: packed([(address, 64), (len(data), 24)])} for address, data in transfers]
    task = cocotb.start_soon(bench.send(unit.command_valid, unit.command_ready, items))
    beats = [{unit.data: beat} for _, data in transfers for beat in data]
    await bench.send(unit.data_valid, unit.data_ready, beats, gaps)
    await task


def random_transfers(bench: ModuleBench, count: int, longest: int) -> list[tuple[int, list[int]]]:
    transfers = []
    for _ in range(count):
        address = 64 * bench.random.randrange(2**58 - 2**20)
        beats = bench.random.randrange(1, longest)
        transfers.append((address, [bench.random.getrandbits(512) for _ in range(beats)]))
    return transfers


@cocotb.test()
@cocotb.parametrize(latency=[0, 40], stalls=[0.0, 0.4], gaps=[0.0, 0.5])
async def transfers(dut: Any, latency: int, stalls: float, gaps: float) -> None:
    """Everything arrives at its address; W never waits for data once its address is out."""
    bench, unit, slave = await begin(dut, latency, stalls)
    wanted = random_transfers(bench, 12, 50)
    await bench.within(cocotb.start_soon(write(bench, unit, wanted, gaps)), 8000)
    await idle(bench, unit)
    assert slave.memory == {address + 64 * i: beat for address, data in wanted for i, beat in enumerate(data)}
    assert slave.starved == 0, "W starved"
    assert not unit.error.value


@cocotb.test()
async def errors_stick(dut: Any) -> None:
    """A bad response raises `error` until the next flush."""
    bench, unit, slave = await begin(dut, 10, 0.2)
    wanted = random_transfers(bench, 3, 30)
    slave.bad_address = wanted[1][0]
    await write(bench, unit, wanted, 0.0)
    await idle(bench, unit)
    assert unit.error.value
    unit.flush.value = 1
    await RisingEdge(bench.clk)
    await RisingEdge(bench.clk)
    assert not unit.error.value


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.5])
async def flush(dut: Any, stalls: float) -> None:
    """A flush finishes what has an address, drops the rest, and leaves a clean writer."""
    bench, unit, slave = await begin(dut, 15, stalls)
    for _ in range(10):
        task = cocotb.start_soon(write(bench, unit, random_transfers(bench, 3, 40), 0.1))
        for _ in range(bench.random.randrange(5, 70)):
            await RisingEdge(bench.clk)
        task.cancel()
        unit.flush.value, unit.command_valid.value, unit.data_valid.value = 1, 0, 0
        await RisingEdge(bench.clk)
        await idle(bench, unit)
        unit.flush.value = 0
        await RisingEdge(bench.clk)
        slave.memory.clear()
        wanted = random_transfers(bench, 2, 20)
        await write(bench, unit, wanted, 0.0)
        await idle(bench, unit)
        assert slave.memory == {address + 64 * i: beat for address, data in wanted for i, beat in enumerate(data)}
