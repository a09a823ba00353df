"""How fast the simulated kernel scores, in megabytes of keys per second of one core, beside its cycles.

Usage: python bench/rtl.py [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from nearkv.contract import block_bytes, pack_blocks
from nearkv.files import write_json
from nearkv_drivers.device import Mode
from nearkv_drivers.kernel import Command
from nearkv_drivers.memory import aligned_buffer
from nearkv_drivers.native_kernel import reduce_native
from nearkv_drivers.rtl_build import library
from nearkv_drivers.rtl_kernel import RtlKernel
from nearkv_drivers.wire import EMPTY

STREAM_BYTES, WIDTH, DISTINCT_BLOCKS = 4 << 20, 128, 64


def command(rng: np.random.Generator, memory: np.ndarray, bits: int, group: int) -> Command:
    """A request over a memory full of random score blocks: one run, as after a long prompt."""
    size = block_bytes(WIDTH, bits)
    blocks = memory.size // size
    low, high = (-7, 8) if bits == 4 else (-127, 128)
    keys = rng.integers(low, high, (DISTINCT_BLOCKS * 32, WIDTH), np.int16).astype(np.int8)
    some = pack_blocks(keys, rng.integers(1, 256, DISTINCT_BLOCKS * 32, np.uint8), bits)
    memory[: blocks * size] = some[rng.integers(0, DISTINCT_BLOCKS, blocks)].reshape(-1)
    scale = (rng.integers(2**15, 2**16, (1, group)).astype(np.uint16), np.full((1, group), 28, np.uint8))
    return Command(
        np.zeros(1, np.uint64), np.array([blocks], np.uint32), *scale, np.zeros((1, group), np.int32),
        rng.integers(-127, 128, (group, WIDTH)).astype(np.int8), np.full(group, EMPTY, np.int32), bits, Mode.MASS, 0,
    )  # fmt: skip


def measure(path: Path, bits: int, group: int, repeats: int = 3) -> dict[str, float]:
    """The best of ``repeats`` starts over STREAM_BYTES, by the processor time that it took."""
    memory = aligned_buffer(STREAM_BYTES)
    request = command(np.random.default_rng(bits * group), memory, bits, group)
    kernel = RtlKernel(path, memory, reduce_native, latency=60, bytes_per_cycle=64.0)
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        kernel.start([request]).wait()
        seconds.append(time.process_time() - begin)
    start = kernel.figures.last
    kernel.close()
    best = min(seconds)
    return {
        "bits": bits, "D": WIDTH, "G": group, "beats": start.beats, "cycles": start.cycles,
        "cycles_per_second": round(start.cycles / best),
        "megabytes_per_core_second": round(start.beats * 64e-6 / best, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    arguments = parser.parse_args()
    path, rows = library(), []
    print("bits   D  G   beats  cycles  cycles/s  MB of keys per second of one core")
    for bits in (8, 4):
        for group in (1, 4, 8):
            row = measure(path, bits, group)
            rows.append(row)
            figures = ("beats", "cycles", "cycles_per_second", "megabytes_per_core_second")
            print(f"{bits:>4} {WIDTH:>3} {group:>2}", *(f"{row[name]:>9}" for name in figures))
    if arguments.json:
        write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
