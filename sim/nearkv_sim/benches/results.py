"""Tiles of log-masses, the bitmap of bad blocks, and where results are written."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from nearkv_sim.module_bench import ModuleBench, packed, unpacked

REQUEST_WIDTHS = (4, 1, 17, 12, 1, 2, 3, 5, 1, 64)


@cocotb.test()
@cocotb.parametrize(group=[1, 6, 16], stalls=[0.0, 0.6])
async def tiles(dut: Any, group: int, stalls: float) -> None:
    """Requests of 1 to 40 blocks one after the other; missing positions are zero."""
    bench, unit = ModuleBench(dut), dut.tiles
    await bench.reset([unit.in_valid, unit.out_ready])
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    unit.group.value = group
    sizes = [1, 16, 17, 32, 40, int(rng.integers(2, 16))]
    data = [rng.integers(0, 2**32, (size, group)) for size in sizes]
    items = [
        {unit.in_value: int(values[i, h]), unit.in_head: h, unit.in_last_in_block: int(h == group - 1),
         unit.in_last: int(i == len(values) - 1)}
        for values in data for i in range(len(values)) for h in range(group)
    ]  # fmt: skip
    expected = []
    for values in data:
        padded = np.zeros((-(-len(values) // 16) * 16, group), np.int64)
        padded[: len(values)] = values
        expected += [[int(v) for v in tile[:, h]] for tile in padded.reshape(-1, 16, group) for h in range(group)]
    cocotb.start_soon(bench.send(unit.in_valid, unit.in_ready, items, 0.1))
    receive = bench.receive(
        unit.out_valid,
        unit.out_ready,
        len(expected),
        lambda: unpacked(int(unit.out_data.value), (32,) * 16)[::-1],
        stalls,
    )
    assert await bench.within(receive, 20 * len(items) + 200) == expected


@cocotb.test()
@cocotb.parametrize(blocks=[1, 511, 512, 513, 1100])
async def bitmap(dut: Any, blocks: int) -> None:
    """One beat for every 512 blocks and one for the rest; bad blocks are counted."""
    bench, unit = ModuleBench(dut), dut.bad_map
    await bench.reset([unit.in_valid, unit.out_ready, unit.start])
    bad = [bench.random.random() < 0.2 for _ in range(blocks)]
    unit.start.value = 1
    await RisingEdge(bench.clk)
    unit.start.value = 0
    items = [{unit.in_bad: int(b), unit.in_last: int(i == blocks - 1)} for i, b in enumerate(bad)]
    cocotb.start_soon(bench.send(unit.in_valid, unit.in_ready, items))
    beats = await bench.within(
        bench.receive(unit.out_valid, unit.out_ready, -(-blocks // 512), lambda: int(unit.out_data.value), 0.3),
        4 * blocks + 60,
    )
    word = sum(beat << 512 * i for i, beat in enumerate(beats))
    assert [bool(word >> i & 1) for i in range(blocks)] == bad
    assert word >> blocks == 0
    assert int(unit.bad_blocks.value) == sum(bad)


@cocotb.test()
@cocotb.parametrize(topk=[0, 1], trial=list(range(6)))
async def addresses(dut: Any, topk: int, trial: int) -> None:
    """Bitmap, payload and header go to their places, whatever order they become ready in."""
    bench, unit = ModuleBench(dut), dut.result_writes
    streams = {"map": unit.map_valid, "tile": unit.tile_valid, "pairs": unit.pairs_valid}
    await bench.reset([*streams.values(), unit.start, unit.finish, unit.command_ready, unit.data_ready])
    rng = np.random.default_rng([cocotb.RANDOM_SEED, trial])
    group, blocks, pairs = (int(n) for n in rng.integers(1, (17, 1100, 2049)))
    result = 64 * int(rng.integers(2**58 - 2**20))
    fields = [int(n) for n in rng.integers(0, (16, 2, 2, 4, 5))]
    request = (fields[0], fields[1], blocks, pairs, *fields[2:], group, topk, result)
    unit.request.value = packed(list(zip(request, REQUEST_WIDTHS, strict=True)))
    unit.pairs.value, unit.bad_blocks.value = pairs, 3
    totals = [bench.random.randrange(2**32) for _ in range(16)]
    for h in range(16):
        unit.totals[h].value = totals[h]
    unit.start.value = 1
    await RisingEdge(bench.clk)
    unit.start.value = 0

    payload_beats = -(-pairs // 8) if topk else group * -(-blocks // 16)
    maps = [bench.random.getrandbits(512) for _ in range(-(-blocks // 512))]
    payload = [bench.random.getrandbits(512) for _ in range(payload_beats)]
    memory: dict[int, int] = {}

    async def write_all() -> None:
        while True:
            command = await bench.receive(
                unit.command_valid, unit.command_ready, 1, lambda: int(unit.command.value), 0.3
            )
            address, beats = command[0] >> 24, command[0] & 0xFFFFFF
            data = await bench.receive(unit.data_valid, unit.data_ready, beats, lambda: int(unit.data.value), 0.3)
            memory.update({address + 64 * i: beat for i, beat in enumerate(data)})

    async def offer() -> None:
        source = "pairs" if topk else "tile"
        both = []
        for name, values in (("map", maps), (source, payload)):
            data = getattr(unit, f"{name}_data")
            sending = bench.send(streams[name], getattr(unit, f"{name}_ready"), [{data: v} for v in values], 0.2)
            both.append(cocotb.start_soon(sending))
        for task in both:
            await task
        unit.finish.value = 1
        while not unit.finished.value:
            await RisingEdge(bench.clk)
        unit.finish.value = 0

    cocotb.start_soon(write_all())
    await bench.within(cocotb.start_soon(offer()), 20 * payload_beats + 500)
    await RisingEdge(bench.clk)
    header = [pairs if topk else blocks, 3, blocks, group]
    assert unpacked(memory[result], (32,) * 16)[::-1] == header + [0] * 12
    assert unpacked(memory[result + 64], (32,) * 16)[::-1] == totals
    assert [memory[result + 128 + 64 * i] for i in range(len(maps))] == maps
    start = result + 128 + 64 * len(maps)
    assert [memory[start + 64 * i] for i in range(payload_beats)] == payload
    assert len(memory) == 2 + len(maps) + payload_beats
