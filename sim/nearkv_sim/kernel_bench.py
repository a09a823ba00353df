"""The kernel under test with its memories and register driver."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiReadBus, AxiWriteBus
from cocotbext.axi.sparse_memory import SparseMemory

from nearkv_sim.axi_memory import PERIOD_NS, MemoryModel, ReadMemory, WriteMemory, quiet, stalls, wait_high
from nearkv_sim.commands import CommandImage, build_commands, parse_completion, parse_result, result_beats
from nearkv_sim.registers import ARGUMENT_OFFSETS, REGISTERS
from nearkv_sim.stimulus import Case, compare


@dataclass(frozen=True)
class Start:
    """Where one kernel start's memory lies."""

    image: CommandImage
    commands: int
    keys: int
    results: int


class KernelBench:
    """Drives ``nearkv_kernel`` the way a host does; one sparse memory stands for the card's DRAM."""

    def __init__(self, dut: Any, latency: int = 0) -> None:
        quiet()
        self.dut = dut
        self.random = random.Random(cocotb.RANDOM_SEED)
        self.memory = SparseMemory(2**64)
        clock, reset = dut.ap_clk, dut.ap_rst_n
        cocotb.start_soon(Clock(clock, PERIOD_NS, unit="ns").start())
        self.control = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi_control"), clock, reset, False)
        self.keys = ReadMemory(AxiReadBus.from_prefix(dut, "m_axi_keys"), clock, reset, self.memory, latency)
        bus = AxiBus.from_prefix(dut, "m_axi_gmem")
        self.fetch = ReadMemory(bus.read, clock, reset, self.memory, latency)
        self.write = WriteMemory(bus.write, clock, reset, self.memory, latency)
        self.memories = (self.keys, self.fetch, self.write, *self._others(latency))
        self._next = self.random.randrange(2**50) * 4096

    def _others(self, latency: int) -> Iterator[MemoryModel]:
        """Memories for what another tool's kernel has besides: more masters, a write channel beside the keys."""
        names = {handle._name for handle in self.dut}
        masters = {name.removesuffix("_arvalid") for name in names if re.fullmatch(r"m_axi_\w+_arvalid", name)}
        for master in sorted(masters - {"m_axi_gmem"}):
            if master != "m_axi_keys":
                bus = AxiReadBus.from_prefix(self.dut, master)
                yield ReadMemory(bus, self.dut.ap_clk, self.dut.ap_rst_n, self.memory, latency)
            if f"{master}_awvalid" in names:
                bus = AxiWriteBus.from_prefix(self.dut, master)
                yield WriteMemory(bus, self.dut.ap_clk, self.dut.ap_rst_n, self.memory, latency)

    async def reset(self, cycles: int = 4) -> None:
        """Hold the reset for so many cycles; memories forget what is outstanding."""
        self.dut.ap_rst_n.value = 0
        for _ in range(cycles):
            await RisingEdge(self.dut.ap_clk)
        for memory in self.memories:
            memory.restart()
        self.dut.ap_rst_n.value = 1
        await RisingEdge(self.dut.ap_clk)

    def set_latency(self, low: int, high: int) -> None:
        """Each transaction takes a random latency of so many cycles."""
        for memory in self.memories:
            memory.latency = low if low == high else lambda: self.random.randint(low, high)

    def set_stalls(self, share: float) -> None:
        """Hold every channel back for about ``share`` of its cycles."""
        for channel in (channel for memory in self.memories for channel in memory.channels):
            if share:
                channel.set_pause_generator(stalls(self.random.random, share))
            else:
                channel.clear_pause_generator()
                channel.pause = False

    def place(self, size: int) -> int:
        """An address for ``size`` bytes: beat-aligned, at any place in a page."""
        address = self._next + 64 * self.random.randrange(64)
        self._next = (address + size + 4095) // 4096 * 4096
        return address

    async def read(self, register: str) -> int:
        """A 32-bit register by name."""
        return int.from_bytes((await self.control.read(REGISTERS[register], 4)).data, "little")

    async def write_register(self, offset: int, value: int, size: int = 4) -> None:
        """Write ``size`` bytes at ``offset``."""
        await self.control.write(offset, value.to_bytes(size, "little"))

    def load(self, cases: Sequence[Case], keys_base: int = 0) -> Start:
        """Put commands and keys into memory."""
        image = build_commands([case.request for case in cases])
        start = Start(image, self.place(image.commands.nbytes), keys_base, self.place(image.result_bytes))
        self.memory.write(start.commands, image.commands.tobytes())
        for case in cases:
            for address, data in case.keys:
                self.memory.write((keys_base + address) % 2**64, data.tobytes())
        return start

    async def launch(self, start: Start, requests: int) -> None:
        """Write the arguments and start; interrupts are enabled."""
        values = {"requests": requests, "commands": start.commands, "keys": start.keys, "results": start.results}
        for name, value in values.items():
            await self.write_register(ARGUMENT_OFFSETS[name], value, 4 if name == "requests" else 8)
        await self.write_register(REGISTERS["gie"], 1)
        await self.write_register(REGISTERS["ier"], 1)
        await self.write_register(REGISTERS["control"], 1)

    async def finish(self, cycles: int) -> None:
        """Wait for the interrupt, acknowledge it and the run."""
        await wait_high(self.dut.interrupt, self.dut.ap_clk, cycles)
        control = await self.read("control")
        assert control & 0b110 == 0b110, f"done and idle expected, control reads {control:#x}"
        await self.write_register(REGISTERS["isr"], 1)
        await self.write_register(REGISTERS["control"], 0x10)
        assert await self.read("control") & 0b11 == 0, "ap_continue did not clear ap_done"

    def completion(self, start: Start) -> dict[str, int]:
        """The completion record."""
        return parse_completion(self.memory.read(start.results, 64))

    def check(self, start: Start, cases: Sequence[Case]) -> None:
        """Compare every result with what its case expects."""
        for i, case in enumerate(cases):
            offset = start.results + start.image.result_offsets[i]
            data = self.memory.read(offset, 64 * result_beats(case.request))
            try:
                compare(case.expected, parse_result(case.request, data))
            except (AssertionError, ValueError) as error:
                request = case.request
                shape = f"INT{request.bits} q{list(request.q.shape)} {request.mode.name} k={request.k}"
                runs = [run.blocks for run in request.runs]
                raise AssertionError(f"request {i} of {len(cases)} ({shape}, runs {runs}): {error}") from error

    async def run(self, cases: Sequence[Case], cycles: int = 2_000_000, keys_base: int = 0) -> dict[str, int]:
        """One start over ``cases``, everything compared; returns the completion record."""
        start = self.load(cases, keys_base)
        await self.launch(start, len(cases))
        await self.finish(cycles)
        record = self.completion(start)
        assert (record["status"], record["completed"], record["version"]) == (0, len(cases), 1), record
        self.check(start, cases)
        return record
