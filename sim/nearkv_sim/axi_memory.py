"""AXI4 memory models for cocotb: pipelined latency, error responses, and checks of the burst rules."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import cocotb
from cocotb.queue import Queue
from cocotb.triggers import RisingEdge, with_timeout
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiReadBus, AxiWriteBus
from cocotbext.axi.axi_channels import AxiARSink, AxiAWSink, AxiBSource, AxiRSource, AxiWSink

PERIOD_NS = 4
"""Clock period of every bench; only ratios of cycles mean anything."""

PAGE, BEAT = 4096, 64
OKAY, SLVERR, DECERR = 0, 2, 3


def quiet() -> None:
    """cocotbext-axi logs payloads at INFO, which costs more than the simulation."""
    logging.getLogger("cocotb").setLevel(logging.WARNING)


def check_burst(transaction: Any, prefix: str) -> tuple[int, int]:
    """Address and beats of an address transaction; AssertionError if it breaks a rule that the kernel promises."""
    address, beats = int(getattr(transaction, f"{prefix}addr")), int(getattr(transaction, f"{prefix}len")) + 1
    assert int(getattr(transaction, f"{prefix}burst")) == 1, "bursts must be INCR"
    assert int(getattr(transaction, f"{prefix}size")) == 6, "beats must be 64 bytes"
    assert address % BEAT == 0, f"address {address:#x} is not beat-aligned"
    assert address // PAGE == (address + beats * BEAT - 1) // PAGE, f"burst {address:#x}+{beats} crosses a 4 KiB page"
    return address, beats


class MemoryModel:
    """Latency (cycles, a number or a function), errors and silence, shared by both directions."""

    def __init__(self, latency: int | Callable[[], int] = 0) -> None:
        self.latency = latency
        self.error_at: Callable[[int], int] = lambda address: OKAY
        self.silent = False
        """A silent memory accepts addresses and never answers."""
        self.channels: tuple[Any, ...] = ()
        self.waiting: Queue[Any] = Queue()
        self._tasks: list[Any] = []

    def restart(self) -> None:
        """Forget what is outstanding (with a reset)."""
        for task in self._tasks:
            task.cancel()
        while not self.waiting.empty():
            self.waiting.get_nowait()
        for channel in self.channels:
            channel.clear()
        self._tasks = [cocotb.start_soon(self._accept()), cocotb.start_soon(self._answer())]

    async def _accept(self) -> None:
        raise NotImplementedError

    async def _answer(self) -> None:
        raise NotImplementedError

    def due(self) -> float:
        """Simulation time at which a transaction that arrived now is answered."""
        cycles = self.latency if isinstance(self.latency, int) else self.latency()
        return get_sim_time("ns") + cycles * PERIOD_NS


class ReadMemory(MemoryModel):
    """Answers reads in order; bursts wait for their latency beside each other, not one after the other."""

    def __init__(
        self, bus: AxiReadBus, clock: Any, reset: Any, memory: Any, latency: int | Callable[[], int] = 0
    ) -> None:
        super().__init__(latency)
        self.clock, self.memory = clock, memory
        self.ar = AxiARSink(bus.ar, clock, reset, False)
        self.r = AxiRSource(bus.r, clock, reset, False)
        self.r.queue_occupancy_limit = 128
        self.bursts = 0
        self.longest = 0
        self.channels = (self.ar, self.r)
        self.restart()

    async def _accept(self) -> None:
        while True:
            address, beats = check_burst(await self.ar.recv(), "ar")
            self.bursts, self.longest = self.bursts + 1, max(self.longest, beats)
            self.waiting.put_nowait((self.due(), address, beats))

    async def _answer(self) -> None:
        while True:
            due, address, beats = await self.waiting.get()
            while self.silent or get_sim_time("ns") < due:
                await RisingEdge(self.clock)
            data = self.memory.read(address, beats * BEAT)
            for i in range(beats):
                beat = self.r._transaction_obj()
                beat.rid, beat.rlast = 0, int(i == beats - 1)
                beat.rdata = int.from_bytes(data[i * BEAT : (i + 1) * BEAT], "little")
                beat.rresp = self.error_at(address + i * BEAT)
                await self.r.send(beat)


class WriteMemory(MemoryModel):
    """Accepts writes; a response comes a latency after the last beat."""

    def __init__(
        self, bus: AxiWriteBus, clock: Any, reset: Any, memory: Any, latency: int | Callable[[], int] = 0
    ) -> None:
        super().__init__(latency)
        self.clock, self.memory = clock, memory
        self.aw = AxiAWSink(bus.aw, clock, reset, False)
        self.w = AxiWSink(bus.w, clock, reset, False)
        self.b = AxiBSource(bus.b, clock, reset, False)
        self.channels = (self.aw, self.w, self.b)
        self.restart()

    async def _accept(self) -> None:
        while True:
            address, beats = check_burst(await self.aw.recv(), "aw")
            response = OKAY
            for i in range(beats):
                beat = await self.w.recv()
                assert int(beat.wlast) == int(i == beats - 1), "wlast in the wrong place"
                assert int(beat.wstrb) == 2**BEAT - 1, "partial write"
                self.memory.write(address + i * BEAT, int(beat.wdata).to_bytes(BEAT, "little"))
                response = max(response, self.error_at(address + i * BEAT))
            self.waiting.put_nowait((self.due(), response))

    async def _answer(self) -> None:
        while True:
            due, response = await self.waiting.get()
            while self.silent or get_sim_time("ns") < due:
                await RisingEdge(self.clock)
            beat = self.b._transaction_obj()
            beat.bid, beat.bresp = 0, response
            await self.b.send(beat)


def stalls(random: Callable[[], float], share: float) -> Iterator[bool]:
    """Pause pattern that holds a channel back for about ``share`` of the cycles, in bursts of random length."""
    while True:
        pause = random() < share
        for _ in range(1 + int(random() * (8 if random() < 0.8 else 60))):
            yield pause


async def wait_high(signal: Any, clock: Any, cycles: int) -> None:
    """Wait until ``signal`` is high; SimTimeoutError after so many clock cycles."""
    if signal.value != 1:
        await with_timeout(RisingEdge(signal), cycles * PERIOD_NS, "ns")
    await RisingEdge(clock)
