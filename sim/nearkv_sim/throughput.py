"""Throughput in cycles on long streams, with the C++ memory of ``sim/verilated``: what ``nearkv sim bench`` prints."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np

from nearkv.contract import block_bytes, pack_blocks
from nearkv_drivers.device import Mode, Run, ScoreRequest
from nearkv_sim.commands import build_commands
from nearkv_sim.toolchain import build_harness

STREAM_BYTES = 4 << 20
"""Least size of the stream that each row reads."""

BASE = 0x4000_0000


@dataclass(frozen=True)
class Row:
    """One measurement. ``beats_per_cycle`` is first to last key beat, ``end_to_end`` start to interrupt.

    ``latency`` is in cycles, -1 for a latency of 64 with every channel held back a quarter of the time; ``k`` is 0 in
    mode MASS.
    """

    bits: int
    D: int
    G: int
    mode: str
    k: int
    latency: int
    beats: int
    cycles: int
    beats_per_cycle: float
    end_to_end: float
    host_mb_per_s: float
    """Megabytes of keys that the simulation itself scores per second of host time."""


def stream_request(
    bits: int, width: int, group: int, mode: Mode, k: int, address: int
) -> tuple[ScoreRequest, np.ndarray]:
    """A single-run request over at least STREAM_BYTES of random keys, and the keys."""
    rng = np.random.default_rng(bits * width + group)
    size = block_bytes(width, bits)
    blocks = -(-STREAM_BYTES // size)
    low, high = (-7, 8) if bits == 4 else (-127, 128)
    # 64 different blocks, repeated: sealing them is what takes time here.
    some = pack_blocks(
        rng.integers(low, high, (64 * 32, width), np.int16).astype(np.int8),
        rng.integers(1, 256, 64 * 32, np.uint8),
        bits,
    )
    keys = some[rng.integers(0, 64, blocks)]
    q = rng.integers(-127, 128, (group, width), np.int16).astype(np.int8)
    c = rng.integers(2**15, 2**16, group).astype(np.uint16)
    run = Run(address, blocks, c, np.full(group, 28, np.uint8), np.zeros(group, np.int32))
    return ScoreRequest([run], q, bits, mode, k), keys.reshape(-1)


def measure(harness: Path, bits: int, width: int, group: int, mode: Mode, k: int, latency: int) -> Row:
    """Run one stream and count."""
    request, keys = stream_request(bits, width, group, mode, k, BASE)
    image = build_commands([request])
    commands = BASE + -(-keys.nbytes // 4096) * 4096
    results = commands + -(-image.commands.nbytes // 4096) * 4096
    memory = np.zeros(results - BASE + image.result_bytes, np.uint8)
    memory[: keys.nbytes] = keys
    memory[commands - BASE : commands - BASE + image.commands.nbytes] = image.commands
    stalls = "0.25" if latency < 0 else "0"
    with tempfile.NamedTemporaryFile() as file:
        memory.tofile(file.name)
        words = [file.name, BASE, 1, commands, 0, results, 64 if latency < 0 else latency, stalls, 1, 20_000_000, 0]
        command = [str(harness), *map(str, words)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    counted = json.loads(output)
    if counted["status"] != 0 or counted["beats"] * 64 != keys.nbytes:
        raise RuntimeError(f"the stream did not complete: {counted}")
    beats = counted["beats"]
    return Row(
        bits, width, group, mode.name, k, latency, beats, counted["cycles"],
        round(beats / counted["stream_cycles"], 4), round(beats / counted["cycles"], 4),
        round(keys.nbytes / 1e6 / counted["seconds"], 1),
    )  # fmt: skip


def bench(full: bool = True) -> Iterator[dict[str, object]]:
    """Rows for every format, width, group and mode: no latency, 256 cycles, and random stalls.

    ``full`` False measures a representative tenth of them.
    """
    harness = build_harness()
    widths, groups = ((64, 128, 256), (1, 4, 8)) if full else ((64,), (8,))
    latencies = (0, 256, -1) if full else (0, 256)
    for bits, width, group, latency in product((8, 4), widths, groups, latencies):
        for mode, k in ((Mode.MASS, 0), (Mode.TOPK, 64), (Mode.TOPK, 2048)):
            yield asdict(measure(harness, bits, width, group, mode, k, latency))
