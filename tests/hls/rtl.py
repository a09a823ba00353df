"""The RTL kernel, Verilated with a memory in C++, over the same memory image as the HLS kernel."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hls.memory_image import BEAT, STATUS, Job, completion, pack, unpack

from nearkv_drivers.device import ScoreResult

BASE = 0x4000_0000
LATENCY, STALLS, SEED, CYCLES, SPREAD = 40, 0.2, 1, 100_000_000, 60


def run(harness: Path, jobs: Sequence[Job]) -> list[ScoreResult]:
    """Run ``jobs`` as one start that must succeed, one result per job."""
    image = pack(jobs)
    parts = (image.keys, image.commands, image.results)
    offsets = np.cumsum([0, *(part.size for part in parts)])
    assert not (offsets % BEAT).any()
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(part.tobytes() for part in parts))
        file.flush()
        keys, commands, results = (str(BASE + offset) for offset in offsets[:3])
        timing = map(str, (LATENCY, STALLS, SEED, CYCLES, SPREAD))
        command = [str(harness), file.name, str(BASE), str(len(jobs)), commands, keys, results, *timing]
        subprocess.run(command, check=True, capture_output=True, text=True)
        image.results = np.fromfile(file.name, np.uint8)[offsets[2] :]
    record = completion(image)
    assert record["status"] == STATUS["OK"], f"status {record['status']} at request {record['failed']}"
    return [unpack(image, i) for i in range(len(jobs))]
