"""Commands for kernels behind the seam, with their score blocks laid out in one memory."""

from __future__ import annotations

import numpy as np

from nearkv_drivers.device import Mode
from nearkv_drivers.kernel import Command
from nearkv_drivers.wire import block_bytes, row_width

from vectors import ScoreVector

GROUPS = (1, 2, 3, 7, 8, 9, 16)


def vector_command(vector: ScoreVector, mode: Mode, base: int = 0) -> Command:
    """The request of a golden vector whose blocks lie at ``base``."""
    blocks = vector.run_blocks.astype(np.uint32)
    starts = base + vector.blocks.shape[1] * (np.cumsum(blocks) - blocks)
    return Command(
        starts.astype(np.uint64), blocks, vector.c, vector.r, vector.b, vector.q, vector.initial_total, vector.bits,
        mode, vector.k,
    )  # fmt: skip


def random_commands(rng, memory: np.ndarray, count: int) -> list[Command]:
    """Commands over runs of sealed random blocks, placed in ``memory`` one after the other, a few of them damaged."""
    from nearkv.contract import pack_blocks

    commands, at = [], 0
    for _ in range(count):
        bits, width = int(rng.choice([4, 8])), row_width(int(rng.choice([32, 48, 96, 176])))
        group, runs = int(rng.choice(GROUPS)), int(rng.integers(1, 5))
        size = block_bytes(width, bits)
        blocks = rng.integers(1, 40, runs).astype(np.uint32)
        addresses = []
        for n in blocks.tolist():
            low, high = (-8, 8) if bits == 4 else (-128, 128)
            m = rng.integers(0, 256, n * 32).astype(np.uint8) * (rng.random(n * 32) < 0.8)
            keys = rng.integers(low, high, (n * 32, width), np.int16).astype(np.int8)
            data = pack_blocks(keys, m.astype(np.uint8), bits)
            data[rng.random(n) < 0.05, 70] ^= 1
            at += 64 * int(rng.integers(3))
            memory[at : at + n * size] = data.reshape(-1)
            addresses.append(at)
            at += n * size
        mode = Mode(int(rng.integers(2)))
        commands.append(
            Command(
                np.array(addresses, np.uint64),
                blocks,
                rng.integers(2**15, 2**16, (runs, group)).astype(np.uint16),
                rng.integers(22, 34, (runs, group)).astype(np.uint8),
                rng.integers(-(2**16), 2**16, (runs, group)).astype(np.int32),
                rng.integers(-128, 128, (group, width)).astype(np.int8),
                rng.integers(-(2**12), 2**12, group).astype(np.int32),
                bits,
                mode,
                int(rng.integers(1, 2049)),
            )
        )
    return commands
