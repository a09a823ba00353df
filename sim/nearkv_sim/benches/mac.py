"""Dot products: query layout and store, unpacking, packed multiplies, adder tree, rows of every length."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ReadOnly, RisingEdge

from nearkv.contract import pack_blocks
from nearkv_drivers.wire import HEADER_BYTES, ROW_WIDTHS
from nearkv_sim.module_bench import ModuleBench, packed

OP_WIDTHS = (2, 1, 1, 2, 2, 5, 8, 8, 1, 1, 1)
LATENCY = 6


def extremes(rng: np.random.Generator, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random values, a third of them at the ends of the range."""
    values = rng.integers(low, high + 1, shape)
    ends = rng.choice([low, high], shape)
    return np.where(rng.random(shape) < 1 / 3, ends, values)


async def load_queries(dut: Any, bench: ModuleBench, q: np.ndarray, bits: int, width: int, bank: int) -> None:
    """Write query rows the way the fetcher does, 64 values a cycle."""
    store, layout = dut.query_store, dut.layout
    layout.int4.value, layout.width.value = int(bits == 4), ROW_WIDTHS.index(width)
    for head, row in enumerate(q):
        padded = np.zeros(max(width, 64), np.int8)
        padded[:width] = row
        for part, values in enumerate(padded.reshape(-1, 64)):
            layout.part.value = part
            layout.beat.value = int.from_bytes(values.tobytes(), "little")
            store.write.value, store.write_bank.value, store.write_head.value = 1, bank, head
            await RisingEdge(bench.clk)
    store.write.value = 0


def passes(bits: int, width: int, halves: int) -> list[tuple[int, dict[str, int], list[int]]]:
    """(beat, op fields, tokens completed) of one block, in the sequencer's order."""
    row_bytes = width * bits // 8
    result = []
    for beat in range(row_bytes // 2):
        for phase in range(2 if row_bytes == 16 else 1):
            for half in range(halves):
                first = beat * 64 // row_bytes + 2 * phase
                parts = max(row_bytes // 64, 1)
                chunk = beat % parts
                tokens = [first, first + 1] if row_bytes <= 32 else [first]
                op = {"chunk": chunk, "half": half, "phase": phase, "token": first,
                      "first": int(chunk == 0), "last": int(chunk == parts - 1)}  # fmt: skip
                result.append((beat, op, tokens if op["last"] else []))
    return result


@cocotb.test()
@cocotb.parametrize(bits=[4, 8], width=list(ROW_WIDTHS), group=[1, 8, 16])
async def dots(dut: Any, bits: int, width: int, group: int) -> None:
    """Every token of a block with every head, values at the ends of their ranges included."""
    bench, unit, store = ModuleBench(dut), dut.mac, dut.query_store
    await bench.reset([unit.op_valid, store.write, store.read])
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    q = extremes(rng, -128, 127, (group, width)).astype(np.int8)
    keys = extremes(rng, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, (32, width)).astype(np.int8)
    beats = pack_blocks(keys, np.ones(32, np.uint8), bits)[0, HEADER_BYTES:].reshape(-1, 64)
    dots = q.astype(np.int64) @ keys.T.astype(np.int64)
    bank = int(rng.integers(2))
    await load_queries(dut, bench, q, bits, width, bank)
    unit.int4.value = int(bits == 4)
    unit.row.value = (width * bits // 8).bit_length() - 5
    unit.pairs_used.value = 15 if group >= 8 else 2 ** (-(-group // 2)) - 1

    expected: list[tuple[int, list[int]]] = []
    found: list[tuple[int, list[int]]] = []
    heads = min(group, 8)

    async def watch() -> None:
        while True:
            await ReadOnly()
            if unit.dot_valid.value:
                slots = [unit.dot0, unit.dot1][: len(expected[len(found)][1]) // heads]
                values = [slot[h].value.to_signed() for slot in slots for h in range(heads)]
                found.append((int(unit.dot_op.value) >> 30 - 1 & 1, values))
            await RisingEdge(bench.clk)

    watcher = cocotb.start_soon(watch())
    for beat, op, tokens in passes(bits, width, 2 if group > 8 else 1):
        while rng.random() < 0.2:
            unit.op_valid.value = store.read.value = 0
            await RisingEdge(bench.clk)
        fields = (op["chunk"], op["half"], op["phase"], 0, 0, op["token"], 1, 1, op["first"], op["last"], 1)
        unit.op.value, unit.op_valid.value = packed(list(zip(fields, OP_WIDTHS, strict=True))), 1
        unit.beat.value = int.from_bytes(beats[beat].tobytes(), "little")
        store.read.value, store.read_bank.value = 1, bank
        store.read_half.value, store.read_chunk.value = op["half"], op["chunk"]
        if tokens:
            rows = slice(8 * op["half"], 8 * op["half"] + heads)
            expected.append((op["half"], [int(v) for t in tokens for v in dots[rows, t]]))
        await RisingEdge(bench.clk)
    unit.op_valid.value = store.read.value = 0
    for _ in range(LATENCY + 2):
        await RisingEdge(bench.clk)
    watcher.cancel()
    assert found == expected
