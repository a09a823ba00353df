"""Read master: burst rules, data in order, room before addresses, flush."""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

from nearkv_sim.module_bench import ModuleBench, packed

FIFO_BEATS, MAX_BURST = 64, 16


class Slave:
    """Answers in order after a latency; data are a function of the address."""

    def __init__(self, bench: ModuleBench, unit: Any, latency: int, stalls: float) -> None:
        self.bench, self.unit, self.latency, self.stalls = bench, unit, latency, stalls
        self.outstanding = 0
        self.most_outstanding = 0
        self.bad_address = -1
        cocotb.start_soon(self.run())

    async def run(self) -> None:
        unit, random = self.unit, self.bench.random
        waiting: deque[tuple[int, int]] = deque()
        cycle, offered = 0, False
        while True:
            unit.arready.value = int(random.random() >= self.stalls)
            if not offered and waiting and waiting[0][0] <= cycle and random.random() >= self.stalls:
                unit.rdata.value, unit.rvalid.value, offered = data_at(waiting[0][1]), 1, True
                unit.rresp.value = 2 if waiting[0][1] == self.bad_address else 0
            await ReadOnly()
            assert unit.rready.value, "rready dropped"
            if unit.arvalid.value and unit.arready.value:
                address, beats = int(unit.araddr.value), int(unit.arlen.value) + 1
                assert beats <= MAX_BURST
                assert address // 4096 == (address + 64 * beats - 1) // 4096, "crosses a page"
                waiting.extend((cycle + self.latency, address + 64 * i) for i in range(beats))
            if offered:
                waiting.popleft()
                offered = False
            self.outstanding = len(waiting)
            self.most_outstanding = max(self.most_outstanding, len(waiting))
            await RisingEdge(self.bench.clk)
            unit.rvalid.value = 0
            cycle += 1


def data_at(address: int) -> int:
    return address * 0x9E3779B97F4A7C15 % 2**512


async def begin(dut: Any, latency: int, stalls: float) -> tuple[ModuleBench, Any, Slave]:
    bench, unit = ModuleBench(dut), dut.axi_reader
    await bench.reset([unit.flush, unit.command_valid, unit.beat_ready, unit.arready, unit.rvalid])
    return bench, unit, Slave(bench, unit, latency, stalls)


def commands(bench: ModuleBench, count: int, longest: int) -> list[tuple[int, int]]:
    return [(64 * bench.random.randrange(2**58 - 2**20), bench.random.randrange(1, longest)) for _ in range(count)]


@cocotb.test()
@cocotb.parametrize(latency=[0, 5, 60], stalls=[0.0, 0.3], gaps=[0.0, 0.5])
async def transfers(dut: Any, latency: int, stalls: float, gaps: float) -> None:
    """Beats come in order of the commands, and never more are requested than the FIFO holds."""
    bench, unit, slave = await begin(dut, latency, stalls)
    wanted = commands(bench, 12, 90)
    items = [{unit.command: packed([(address, 64), (beats, 24)])} for address, beats in wanted]
    slave.bad_address = wanted[5][0]
    cocotb.start_soon(bench.send(unit.command_valid, unit.command_ready, items))
    addresses = [address + 64 * i for address, beats in wanted for i in range(beats)]
    receive = bench.receive(
        unit.beat_valid,
        unit.beat_ready,
        len(addresses),
        lambda: (int(unit.beat.value), int(unit.beat_error.value)),
        gaps,
    )
    found = await bench.within(receive, 40 * len(addresses) + 2000)
    assert found == [(data_at(a), int(a == slave.bad_address)) for a in addresses]
    assert slave.most_outstanding <= FIFO_BEATS
    await ReadOnly()
    assert unit.idle.value


@cocotb.test()
async def full_rate(dut: Any) -> None:
    """With room for the latency, a beat a cycle."""
    bench, unit, _ = await begin(dut, 20, 0.0)
    cocotb.start_soon(
        bench.send(unit.command_valid, unit.command_ready, [{unit.command: packed([(0, 64), (1000, 24)])}])
    )
    await bench.within(bench.receive(unit.beat_valid, unit.beat_ready, 1000, lambda: None), 1000 + 20 + 10)


@cocotb.test()
async def stays_within_the_fifo(dut: Any) -> None:
    """A consumer that takes nothing: the master stops asking when the FIFO is spoken for."""
    bench, unit, slave = await begin(dut, 30, 0.0)
    cocotb.start_soon(
        bench.send(unit.command_valid, unit.command_ready, [{unit.command: packed([(64, 64), (500, 24)])}])
    )
    for _ in range(300):
        await RisingEdge(bench.clk)
    assert slave.outstanding == 0
    beats = await bench.within(bench.receive(unit.beat_valid, unit.beat_ready, 500, lambda: int(unit.beat.value)), 2000)
    assert beats == [data_at(64 + 64 * i) for i in range(500)]


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.5])
async def flush(dut: Any, stalls: float) -> None:
    """A flush at any time: nothing new is asked for, what is owed is dropped, the next transfer is clean."""
    bench, unit, slave = await begin(dut, 25, stalls)
    for _ in range(12):
        unit.command.value = packed([(0x1000, 64), (400, 24)])
        unit.command_valid.value = 1
        await bench.taken(unit.command_valid, unit.command_ready)
        unit.command_valid.value = 0
        unit.beat_ready.value = bench.random.randrange(2)
        for _ in range(bench.random.randrange(60)):
            await RisingEdge(bench.clk)
        unit.flush.value, unit.beat_ready.value = 1, 0
        await RisingEdge(bench.clk)
        for _ in range(400):
            await ReadOnly()
            if unit.idle.value:
                break
            await RisingEdge(bench.clk)
        assert unit.idle.value, "the flush did not end"
        await RisingEdge(bench.clk)
        assert slave.outstanding == 0
        unit.flush.value = 0
        wanted = commands(bench, 1, 40)
        items = [{unit.command: packed([(address, 64), (beats, 24)])} for address, beats in wanted]
        cocotb.start_soon(bench.send(unit.command_valid, unit.command_ready, items))
        address, beats = wanted[0]
        found = await bench.within(
            bench.receive(unit.beat_valid, unit.beat_ready, beats, lambda: int(unit.beat.value)), 2000
        )
        assert found == [data_at(address + 64 * i) for i in range(beats)]
