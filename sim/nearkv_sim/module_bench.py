"""What the module benches share: clock, reset, and ready/valid streams with random gaps on both sides."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, with_timeout

from nearkv_sim.axi_memory import PERIOD_NS, quiet

Fields = dict[str, int]


def packed(fields: Sequence[tuple[int, int]]) -> int:
    """A packed struct from (value, width) pairs, the most significant field first."""
    word = 0
    for value, width in fields:
        word = word << width | value & ((1 << width) - 1)
    return word


def unpacked(word: int, widths: Sequence[int]) -> list[int]:
    """Fields of a packed struct, the most significant first."""
    fields = []
    for width in reversed(widths):
        fields.append(word & ((1 << width) - 1))
        word >>= width
    return fields[::-1]


def signed(value: int, bits: int) -> int:
    """``value`` as two's complement."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


class ModuleBench:
    """One module of ``nkv_modules``: drives and samples it just after each clock edge."""

    def __init__(self, dut: Any) -> None:
        quiet()
        self.clk, self.rst_n = dut.clk, dut.rst_n
        self.random = random.Random(cocotb.RANDOM_SEED)
        cocotb.start_soon(Clock(self.clk, PERIOD_NS, unit="ns").start())

    async def reset(self, idle: Iterable[Any] = ()) -> None:
        """Reset with the ``idle`` signals at 0."""
        self.rst_n.value = 0
        for signal in idle:
            signal.value = 0
        await ClockCycles(self.clk, 3)
        self.rst_n.value = 1
        await RisingEdge(self.clk)

    async def send(self, valid: Any, ready: Any, items: Iterable[dict[Any, int]], gaps: float = 0.0) -> None:
        """Offer ``items`` (signal to value) one after the other; ``gaps`` is the share of idle cycles."""
        for item in items:
            while self.random.random() < gaps:
                await RisingEdge(self.clk)
            for signal, value in item.items():
                signal.value = value
            valid.value = 1
            await self.taken(valid, ready)
            valid.value = 0

    async def receive(
        self, valid: Any, ready: Any, count: int, sample: Callable[[], Any], stalls: float = 0.0
    ) -> list[Any]:
        """Take ``count`` items; ``stalls`` is the share of cycles without ready."""
        items = []
        while len(items) < count:
            ready.value = int(self.random.random() >= stalls)
            await ReadOnly()
            took = bool(valid.value) and bool(ready.value)
            if took:
                items.append(sample())
            await RisingEdge(self.clk)
        ready.value = 0
        return items

    async def taken(self, valid: Any, ready: Any) -> None:
        """Wait for the edge at which both are high."""
        while True:
            await ReadOnly()
            took = bool(valid.value) and bool(ready.value)
            await RisingEdge(self.clk)
            if took:
                return

    async def within(self, awaitable: Any, cycles: int) -> Any:
        """Await, at most so many cycles."""
        return await with_timeout(awaitable, cycles * PERIOD_NS, "ns")
