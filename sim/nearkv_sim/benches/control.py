"""Registers: arguments, ap_ctrl_chain, interrupts, read-only status, byte strobes."""

from __future__ import annotations

from typing import Any

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from nearkv_sim.axi_memory import stalls
from nearkv_sim.module_bench import ModuleBench
from nearkv_sim.registers import ARGUMENT_OFFSETS, DOCUMENT, REGISTERS, STATUS

STATUS_PORTS = ("status", "failed", "completed", "cycles", "beats", "stream_cycles")


class ControlBench(ModuleBench):
    def __init__(self, dut: Any) -> None:
        super().__init__(dut)
        self.unit = dut.control
        self.master = AxiLiteMaster(AxiLiteBus.from_entity(dut.control), self.clk, self.rst_n, False)

    async def begin(self) -> None:
        await self.reset([self.unit.taken, self.unit.done, *(getattr(self.unit, name) for name in STATUS_PORTS)])
        self.unit.idle.value = 1

    async def read(self, offset: int) -> int:
        return int.from_bytes((await self.master.read(offset, 4)).data, "little")

    async def write(self, offset: int, value: int) -> None:
        await self.master.write(offset, value.to_bytes(4, "little"))

    async def pulse(self, signal: Any) -> None:
        signal.value = 1
        await RisingEdge(self.clk)
        signal.value = 0
        await RisingEdge(self.clk)


@cocotb.test()
@cocotb.parametrize(stalled=[False, True])
async def arguments(dut: Any, stalled: bool) -> None:
    """Every argument byte can be written alone and read back; holes read as zero."""
    bench = ControlBench(dut)
    await bench.begin()
    if stalled:
        for part in (bench.master.write_if, bench.master.read_if):
            for name in ("aw_channel", "w_channel", "b_channel", "ar_channel", "r_channel"):
                if hasattr(part, name):
                    getattr(part, name).set_pause_generator(stalls(bench.random.random, 0.5))
    values = {entry["name"]: bench.random.getrandbits(8 * entry["size"]) for entry in DOCUMENT["arguments"]}
    for entry in DOCUMENT["arguments"]:
        data = values[entry["name"]].to_bytes(entry["size"], "little")
        for i in bench.random.sample(range(entry["size"]), entry["size"]):
            await bench.master.write(entry["offset"] + i, data[i : i + 1])
    for entry in DOCUMENT["arguments"]:
        data = (await bench.master.read(entry["offset"], entry["size"])).data
        assert int.from_bytes(data, "little") == values[entry["name"]], entry["name"]
        assert int(getattr(bench.unit, entry["name"]).value) == values[entry["name"]]
    known = set(REGISTERS.values()) | {e["offset"] + i for e in DOCUMENT["arguments"] for i in range(0, e["size"], 4)}
    for offset in range(0, 0x80, 4):
        if offset not in known:
            await bench.write(offset, 0xFFFFFFFF)
            assert await bench.read(offset) == 0, f"{offset:#x}"
    assert set(ARGUMENT_OFFSETS) == set(values)


@cocotb.test()
async def start_and_done(dut: Any) -> None:
    """ap_start holds until taken; ap_done holds until ap_continue; ap_ready clears when read."""
    bench = ControlBench(dut)
    await bench.begin()
    assert await bench.read(0) == 0b100
    await bench.write(0, 1)
    assert bench.unit.start.value
    assert await bench.read(0) & 1
    await bench.pulse(bench.unit.taken)
    bench.unit.idle.value = 0
    assert not bench.unit.start.value
    assert await bench.read(0) == 0b1000
    assert await bench.read(0) == 0
    await bench.pulse(bench.unit.done)
    bench.unit.idle.value = 1
    assert bench.unit.done_pending.value
    for _ in range(2):
        assert await bench.read(0) == 0b110
    await bench.write(0, 0x10)
    assert await bench.read(0) == 0b100


@cocotb.test()
async def interrupts(dut: Any) -> None:
    """Only enabled sources are recorded, only with GIE they interrupt, writing 1 toggles."""
    bench = ControlBench(dut)
    await bench.begin()
    for ier in range(4):
        for gie in range(2):
            await bench.write(REGISTERS["ier"], ier)
            await bench.write(REGISTERS["gie"], gie)
            assert await bench.read(REGISTERS["ier"]) == ier
            assert await bench.read(REGISTERS["gie"]) == gie
            await bench.pulse(bench.unit.taken)
            assert await bench.read(REGISTERS["isr"]) == ier & 2
            await bench.pulse(bench.unit.done)
            assert await bench.read(REGISTERS["isr"]) == ier
            await ReadOnly()
            assert bool(bench.unit.interrupt.value) == bool(gie and ier)
            await RisingEdge(bench.clk)
            await bench.write(REGISTERS["isr"], ier)
            assert await bench.read(REGISTERS["isr"]) == 0
            assert not bench.unit.interrupt.value


@cocotb.test()
async def status(dut: Any) -> None:
    """Status registers show their inputs and ignore writes."""
    bench = ControlBench(dut)
    await bench.begin()
    for code in STATUS.values():
        values = {name: code if name == "status" else bench.random.getrandbits(32) for name in STATUS_PORTS}
        for name, value in values.items():
            getattr(bench.unit, name).value = value
        await RisingEdge(bench.clk)
        for name, value in values.items():
            await bench.write(REGISTERS[name], 0xFFFFFFFF)
            assert await bench.read(REGISTERS[name]) == value, name
