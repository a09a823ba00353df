"""Random requests that reach the contract's corners, and their answers by the golden model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hls.memory_image import Job

from nearkv.contract.encode import pack_blocks
from nearkv_drivers.device import Mode, ScoreResult
from nearkv_drivers.wire import EMPTY, MAX_TOP_K, ROW_WIDTHS, Query
from nearkv_sim.stimulus import expected_result

Random = np.random.Generator
INT32 = np.iinfo(np.int32)


def random_job(random: Random, largest: int = 40) -> Job:
    """A request of up to ``largest`` blocks over one to three runs."""
    bits, width = int(random.choice([4, 8])), int(random.choice(ROW_WIDTHS))
    group, runs = int(random.integers(1, 17)), int(random.integers(1, 4))
    blocks = [_blocks(random, int(random.integers(1, max(2, largest // runs))), bits, width) for _ in range(runs)]
    q = _values(random, (group, width), 8)
    c = random.choice([0, 1 << 15, (1 << 16) - 1, int(random.integers(1 << 15, 1 << 16))], (runs, group))
    r = random.choice([0, 1, 15, 24, 31, 32, 40, 47, 48, 63, int(random.integers(64))], (runs, group))
    b = _int32(random, (runs, group))
    query = Query(q, c.astype(np.uint16), r.astype(np.uint8), b)
    mode = Mode(int(random.integers(2)))
    k = int(random.choice([1, 2, 3, 8, 17, 32, MAX_TOP_K])) if mode is Mode.TOPK else 0
    initial = _int32(random, (group,)) if random.random() < 0.5 else None
    return Job(query, blocks, bits, mode, k, initial)


def answer(job: Job) -> ScoreResult:
    """What every implementation must return for ``job``."""
    return expected_result(job.query, job.segments, job.mode, job.k, job.initial_total)


def _values(random: Random, shape: tuple[int, ...], bits: int) -> npt.NDArray[np.int8]:
    """Uniform values of ``bits``, sometimes only their extremes (the lowest included)."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    if random.random() < 0.2:
        return random.choice([low, high], shape).astype(np.int8)
    return random.integers(low, high + 1, shape).astype(np.int8)


def _int32(random: Random, shape: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """Small values mostly, now and then any or an extreme."""
    kind = random.random()
    if kind < 0.6:
        return random.integers(-5000, 5000, shape).astype(np.int32)
    if kind < 0.8:
        return random.integers(INT32.min, INT32.max, shape, endpoint=True).astype(np.int32)
    return random.choice([EMPTY, EMPTY + 1, -1, 0, INT32.max], shape).astype(np.int32)


def _blocks(random: Random, count: int, bits: int, width: int) -> npt.NDArray[np.uint8]:
    """Sealed blocks; some tokens, and now and then whole blocks, do not exist; some blocks are damaged."""
    m = random.integers(1, 256, count * 32)
    m[random.random(count * 32) < random.choice([0, 0.1, 0.9])] = 0
    m.reshape(count, 32)[random.random(count) < 0.1] = 0
    values = _values(random, (count * 32, width), bits)
    if random.random() < 0.2:  # equal blocks: ties
        values.reshape(count, 32, width)[:] = values[:32]
        m.reshape(count, 32)[:] = m[:32]
    blocks = pack_blocks(values, m.astype(np.uint8), bits)
    for i in np.flatnonzero(random.random(count) < 0.1):
        blocks[i, int(random.integers(blocks.shape[1]))] ^= 1 << int(random.integers(8))
    return blocks
