"""Constrained-random requests with their expected results, from the golden model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearkv.contract import EMPTY, Query, Segment, block_bytes, pack_blocks, score, seal_blocks, top_k
from nearkv_drivers.device import Mode, Run, ScoreRequest, ScoreResult
from nearkv_drivers.wire import ROW_WIDTHS

Rng = np.random.Generator


@dataclass(frozen=True)
class Shape:
    """What a random request looks like."""

    bits: int
    width: int
    group: int
    mode: Mode
    runs: tuple[int, ...]
    k: int

    @property
    def blocks(self) -> int:
        """Blocks of all runs."""
        return sum(self.runs)


@dataclass(frozen=True)
class Case:
    """A request, the key bytes that it reads (by address) and what must come back."""

    request: ScoreRequest
    keys: tuple[tuple[int, npt.NDArray[np.uint8]], ...]
    expected: ScoreResult


def random_shape(rng: Rng, max_blocks: int = 6) -> Shape:
    """A shape that visits every format, width, group class and mode evenly."""
    blocks = int(rng.integers(1, max_blocks + 1))
    cuts = np.sort(rng.choice(np.arange(1, blocks), int(rng.integers(0, min(blocks, 4))), replace=False))
    runs = np.diff(np.concatenate([[0], cuts, [blocks]])).astype(int)
    group = int(rng.choice([1, int(rng.integers(2, 8)), 8, int(rng.integers(9, 16)), 16]))
    k = int(rng.choice([1, int(rng.integers(1, blocks + 1)), int(rng.integers(1, 2049)), 2048]))
    return Shape(
        int(rng.choice([4, 8])),
        int(rng.choice(ROW_WIDTHS)),
        group,
        Mode(int(rng.integers(2))),
        tuple(int(n) for n in runs),
        k,
    )


def random_blocks(rng: Rng, shape: Shape, blocks: int) -> npt.NDArray[np.uint8]:
    """Sealed blocks with payloads of every byte value, some without tokens, some short, now and then one damaged."""
    spread = int(rng.choice([2, 20, 128]))
    low, high = (-8, 8) if shape.bits == 4 else (-spread, spread)
    values = rng.integers(low, high, (blocks * 32, shape.width), np.int16).astype(np.int8)
    m = rng.integers(1, 256, blocks * 32).astype(np.uint8)
    for block in range(blocks):
        style = rng.random()
        if style < 0.1:
            m[block * 32 : block * 32 + 32] = 0
        elif style < 0.3:
            m[block * 32 : block * 32 + 32] *= (rng.random(32) < 0.3).astype(np.uint8)
    data = pack_blocks(values, m, shape.bits, stream=int(rng.integers(2**63)), first_block=int(rng.integers(2**31)))
    for block in range(blocks):
        if rng.random() < 0.08:
            damage(rng, data[block], shape)
    return data


def damage(rng: Rng, block: npt.NDArray[np.uint8], shape: Shape) -> None:
    """Flip a bit anywhere, or seal a header of another format or width."""
    style = int(rng.integers(3))
    if style == 0:
        bit = int(rng.integers(block.size * 8))
        block[bit // 8] ^= 1 << (bit % 8)
    else:
        block[31 + style] = [12 - shape.bits, shape.width // 32 ^ 4][style - 1]
        seal_blocks(block[None])


def random_scale(rng: Rng, group: int) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """c, r and b of one run: realistic most of the time, at the edges of their ranges otherwise."""
    c = rng.integers(2**15, 2**16, group).astype(np.uint16)
    r = rng.integers(22, 34, group).astype(np.uint8)
    b = rng.integers(-(2**16), 2**16, group).astype(np.int32)
    if rng.random() < 0.25:
        r = rng.integers(0, 64, group).astype(np.uint8)
        c[rng.random(group) < 0.2] = 0
    if rng.random() < 0.25:
        b = rng.integers(-(2**31), 2**31, group).astype(np.int32)
    return c, r, b


def random_total(rng: Rng, group: int) -> npt.NDArray[np.int32] | None:
    """T0: absent, near the scores, or anywhere."""
    style = int(rng.integers(3))
    if style == 0:
        return None
    total = rng.integers(-(2**14), 2**14, group) if style == 1 else rng.integers(-(2**31), 2**31, group)
    return np.where(rng.random(group) < 0.2, EMPTY, total).astype(np.int32)


def random_case(rng: Rng, shape: Shape, place: Callable[[int], int]) -> Case:
    """A request of ``shape``; ``place`` gives the address for a run of so many bytes."""
    q = rng.integers(-128, 128, (shape.group, shape.width)).astype(np.int8)
    runs, keys, segments, scales = [], [], [], []
    for blocks in shape.runs:
        data = random_blocks(rng, shape, blocks)
        address = place(blocks * block_bytes(shape.width, shape.bits))
        c, r, b = random_scale(rng, shape.group)
        runs.append(Run(address, blocks, c, r, b))
        keys.append((address, data.reshape(-1)))
        segments.append(Segment(data, np.zeros(shape.width, np.float32), 1.0, shape.bits, shape.width, blocks * 32))
        scales.append((c, r, b))
    total = random_total(rng, shape.group)
    request = ScoreRequest(runs, q, shape.bits, shape.mode, shape.k, total)
    query = Query(q, *(np.stack(part) for part in zip(*scales, strict=True)))
    return Case(request, tuple(keys), expected_result(query, segments, shape.mode, shape.k, total))


def expected_result(
    query: Query, segments: Sequence[Segment], mode: Mode, k: int, initial_total: npt.NDArray[np.int32] | None = None
) -> ScoreResult:
    """What the golden model answers."""
    scores = score(query, segments, initial_total)
    if mode is Mode.MASS:
        return ScoreResult(scores.total, scores.bad, log_mass=scores.log_mass)
    return ScoreResult(scores.total, scores.bad, *top_k(scores, k))


def compare(expected: ScoreResult, actual: ScoreResult, label: str = "") -> None:
    """Raise AssertionError naming, after ``label``, the first field that differs in type, shape or a value."""
    for name in ("total", "bad", "log_mass", "positions", "priorities"):
        want, got = getattr(expected, name), getattr(actual, name)
        name = f"{label} {name}".strip()
        if want is None and got is None:
            continue
        assert want is not None, f"{name} came back, but nothing was expected"
        assert got is not None, f"{name} is missing"
        assert want.shape == got.shape, f"{name} has shape {got.shape}, expected {want.shape}"
        assert want.dtype == got.dtype, f"{name} is {got.dtype}, expected {want.dtype}"
        if not np.array_equal(want, got):
            where = tuple(int(i) for i in np.argwhere(want != got)[0])
            raise AssertionError(f"{name}{list(where)} is {got[where]}, expected {want[where]}")
