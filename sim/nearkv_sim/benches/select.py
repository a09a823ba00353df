"""Selection: priorities from stored log-masses and totals, merge sort, the best k in order, pairs in beats."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from nearkv.contract import EMPTY, Scores, top_k
from nearkv_sim.module_bench import ModuleBench, packed, unpacked

WAYS = 4
"""Candidates that travel together (nearkv_pkg)."""

CANDIDATE = (1, 29, 17)
"""Bits of a candidate's fields: exists, share, position."""


def random_log_masses(rng: np.random.Generator, group: int, blocks: int, style: int) -> np.ndarray:
    """Log-masses with many ties, rising, falling, or over the whole range; some blocks are empty."""
    values = [
        rng.integers(-600, 600, (group, blocks)) // 100 * 100,
        np.sort(rng.integers(-3000, 3000, (group, blocks)), axis=1),
        -np.sort(rng.integers(-3000, 3000, (group, blocks)), axis=1),
        rng.integers(-(2**31) + 1, 2**31, (group, blocks)),
    ][style]
    return np.where(rng.random(blocks) < 0.15, EMPTY, values)


async def select(dut: Any, bench: ModuleBench, scores: Scores, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Fill the store, run one selection, return positions and priorities."""
    unit, store = dut.selection, dut.store
    group, blocks = scores.log_mass.shape
    halves = 2 if group > 8 else 1
    for position in range(blocks):
        for half in range(halves):
            rows = scores.log_mass[8 * half : 8 * half + 8, position]
            store.write_bank.value = position % WAYS
            store.write_row.value = position // WAYS * halves + half
            store.write_data.value = packed([(int(v), 32) for v in reversed(rows)])
            store.write.value = 1
            await RisingEdge(bench.clk)
    store.write.value = 0
    candidates = int((scores.log_mass[0] != EMPTY).sum())
    count = min(k, candidates)
    unit.group.value, unit.blocks.value, unit.count.value = group, blocks, count
    for h in range(16):
        unit.totals[h].value = int(scores.total[h]) if h < group else 0
    unit.start.value = 1
    await RisingEdge(bench.clk)
    unit.start.value = 0
    beats = await bench.within(
        bench.receive(unit.out_valid, unit.out_ready, -(-count // 8), lambda: int(unit.out_data.value), bench.stalls),
        int((halves * blocks + 3 * 4096) * (1 + 4 * bench.stalls)),
    )
    pairs = [unpacked(beat >> 64 * i, (32, 32)) for beat in beats for i in range(8)]
    assert pairs[count:] == [[0, 0]] * (len(pairs) - count), "the last beat is not filled with zeros"
    while not unit.idle.value:
        await RisingEdge(bench.clk)
    return np.array([p[1] for p in pairs[:count]]), np.array([p[0] for p in pairs[:count]])


@cocotb.test()
@cocotb.parametrize(group=[1, 7, 8, 13], stalls=[0.0, 0.4])
async def best(dut: Any, group: int, stalls: float) -> None:
    """Few and many blocks, k from 1 to more than there are, ties, orders that are hard for a filter."""
    bench = ModuleBench(dut)
    bench.stalls = stalls
    await bench.reset([dut.selection.start, dut.selection.out_ready, dut.store.write])
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    for style, (blocks, k) in enumerate([(1, 1), (90, 5), (200, 64), (150, 65), (330, 300), (300, 1)]):
        log_mass = random_log_masses(rng, group, blocks, style % 4)
        if (log_mass[0] == EMPTY).all():
            log_mass[:, 0] = 0
        total = np.clip(log_mass.max(axis=1) + rng.integers(-300, 600, group), -(2**31), 2**31 - 1)
        scores = Scores(log_mass.astype(np.int32), total.astype(np.int32))
        positions, priorities = await select(dut, bench, scores, k)
        want_positions, want_priorities = top_k(scores, k)
        assert priorities.tolist() == want_priorities.tolist()
        assert positions.tolist() == want_positions.tolist()


@cocotb.test()
@cocotb.parametrize(level=list(range(2, 8)))
async def sorter(dut: Any, level: int) -> None:
    """Chunks of 2^level leave sorted and stable, one tuple a cycle."""
    bench, unit = ModuleBench(dut), dut.merge_sorter
    await bench.reset([unit.in_valid, unit.out_ready])
    unit.level.value = level
    size, chunks = 2**level, 5
    items = [(bench.random.randrange(2), bench.random.randrange(9), i) for i in range(size * chunks)]
    entrance = getattr(unit, "in")
    tuples = [tuple_word(items[i : i + WAYS]) for i in range(0, len(items), WAYS)]
    cocotb.start_soon(bench.send(unit.in_valid, unit.in_ready, [{entrance: word} for word in tuples]))
    found = await bench.within(
        bench.receive(unit.out_valid, unit.out_ready, len(tuples), lambda: tuple_items(int(unit.out.value))),
        (len(items) + size) // WAYS + 8 * level + 4,
    )
    expected = [
        item
        for chunk in range(chunks)
        for item in sorted(items[chunk * size : (chunk + 1) * size], key=lambda i: (-i[0], -i[1]))
    ]
    assert [item for items in found for item in items] == expected


def tuple_word(items: list[tuple[int, int, int]]) -> int:
    """Candidates as a packed tuple, the first one lowest."""
    return packed([field for item in reversed(items) for field in zip(item, CANDIDATE, strict=True)])


def tuple_items(word: int) -> list[tuple[int, ...]]:
    """Candidates of a packed tuple."""
    fields = unpacked(word, CANDIDATE * WAYS)
    return [tuple(fields[i : i + 3]) for i in range(0, len(fields), 3)][::-1]
