"""The whole kernel against the golden model."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np

from nearkv_sim.kernel_bench import KernelBench
from nearkv_sim.stimulus import random_case, random_shape


@cocotb.test()
async def random_requests(dut: Any) -> None:
    """Batches of small random requests, a memory that answers at once."""
    bench = KernelBench(dut)
    rng = np.random.default_rng(cocotb.RANDOM_SEED)
    await bench.reset()
    for _ in range(4):
        cases = [random_case(rng, random_shape(rng), bench.place) for _ in range(int(rng.integers(1, 12)))]
        await bench.run(cases)
