"""Log-mass of blocks from their scores: maximum, addends, sum, log2; back to back, with and without stalls."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from cocotb.queue import Queue
from cocotb.triggers import ReadOnly, RisingEdge

from nearkv.contract import EMPTY
from nearkv.contract.kernel import block_log_mass, log_of
from nearkv_sim.benches.mac import OP_WIDTHS, extremes
from nearkv_sim.module_bench import ModuleBench, packed, signed, unpacked

MASS_WIDTHS = (32, 4, 1, 1, 1)


def random_scores(rng: np.random.Generator, group: int) -> tuple[np.ndarray, np.ndarray]:
    """x [G, 32] and which tokens exist, from blocks of nearly equal scores to blocks of extremes."""
    style = int(rng.integers(4))
    spread = (8, 2**11, 2**15, 2**31 - 1)[style]
    base = 0 if style == 3 else int(rng.integers(-(2**30), 2**30))
    x = np.clip(base + extremes(rng, -spread, spread, (group, 32)), -(2**31), 2**31 - 1)
    exists = rng.random(32) < (1.0, 0.5, 0.05, 0.0)[int(rng.choice(4, p=[0.5, 0.2, 0.2, 0.1]))]
    return x, exists


@cocotb.test()
@cocotb.parametrize(two_slots=[0, 1], group=[1, 3, 8, 9, 16], stalls=[0.0, 0.5])
async def blocks(dut: Any, two_slots: int, group: int, stalls: float) -> None:
    """Blocks follow each other as fast as the banks allow; unsound ones count as empty."""
    bench, scores, mass = ModuleBench(dut), dut.block_scores, dut.block_mass
    await bench.reset([scores.x_valid, mass.sound_valid, mass.mass_ready])
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    halves = 2 if group > 8 else 1
    for unit in (scores, mass):
        unit.heads_used.value = 2 ** min(group, 8) - 1
    mass.group.value, scores.two_slots.value = group, two_slots
    count = 24
    data = [random_scores(rng, group) for _ in range(count)]
    sound = [bool(rng.random() < 0.85) for _ in range(count)]
    free: Queue[int] = Queue()
    for _ in range(4):
        free.put_nowait(0)

    async def release() -> None:
        while True:
            await ReadOnly()
            if mass.bank_release.value:
                free.put_nowait(0)
            await RisingEdge(bench.clk)

    async def feed() -> None:
        for number, (x, exists) in enumerate(data):
            await free.get()
            await RisingEdge(bench.clk)  # the header
            step = 2 if two_slots else 1
            for token in range(0, 32, step):
                for half in range(halves):
                    op = (0, half, 0, 0, number % 4, token, int(exists[token]) * 7, int(exists[(token + 1) % 32]) * 9,
                          1, 1, int(half == halves - 1))  # fmt: skip
                    scores.x_op.value = packed(list(zip(op, OP_WIDTHS, strict=True)))
                    for h, row in enumerate(x[8 * half : 8 * half + 8]):
                        scores.x0[h].value = int(row[token])
                        scores.x1[h].value = int(row[(token + 1) % 32])
                    scores.x_valid.value = 1
                    await RisingEdge(bench.clk)
            scores.x_valid.value = 0

    cocotb.start_soon(release())
    cocotb.start_soon(feed())
    cocotb.start_soon(bench.send(mass.sound_valid, mass.sound_ready, [{mass.sound: int(s)} for s in sound]))
    receive = bench.receive(
        mass.mass_valid, mass.mass_ready, count * group, lambda: unpacked(int(mass.mass.value), MASS_WIDTHS), stalls
    )
    cycles = count * (32 // (2 if two_slots else 1) * halves + 2) + 120
    found = await bench.within(receive, cycles if stalls == 0 else 4 * cycles + count * group * 8)
    expected = []
    for (x, exists), ok in zip(data, sound, strict=True):
        values = block_log_mass(x[:, None, :], exists[None] if ok else np.zeros((1, 32), bool))[:, 0]
        for head, value in enumerate(values):
            last_in_block = head == group - 1
            expected.append([int(value), head, int(last_in_block or head == 7), int(last_in_block), int(not ok)])
    assert [[signed(item[0], 32), *item[1:]] for item in found] == expected


@cocotb.test()
async def logarithm(dut: Any) -> None:
    """log2 at every width of the sum and at both clamps."""
    bench, unit = ModuleBench(dut), dut.log2
    await bench.reset([unit.in_valid, unit.out_ready])
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    sums = np.concatenate([2 ** np.arange(27), 2 ** np.arange(1, 28) - 1, rng.integers(1, 2**27, 100)])
    exponents = extremes(rng, -(2**23), 2**23 - 1, (len(sums),))
    empty = rng.random(len(sums)) < 0.1
    items = [
        {unit.s: int(s), unit.exponent: int(e), unit.empty: int(n), unit.in_info: i % 256}
        for i, (s, e, n) in enumerate(zip(sums, exponents, empty, strict=True))
    ]
    cocotb.start_soon(bench.send(unit.in_valid, unit.in_ready, items, 0.2))

    def sample() -> tuple[int, int]:
        return int(unit.value.value), int(unit.out_info.value)

    found = await bench.within(bench.receive(unit.out_valid, unit.out_ready, len(items), sample, 0.3), 4000)
    expected = np.where(empty, EMPTY, log_of(exponents, sums))
    assert [(signed(value, 32), info) for value, info in found] == [(int(v), i % 256) for i, v in enumerate(expected)]
