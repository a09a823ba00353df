"""Read golden vector files (README.md) into NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nearkv_drivers.wire import Query, Scores, Segment

FOLDER = Path(__file__).parent
SCORE_MAGIC = int.from_bytes(b"NKVS", "little")
ENCODE_MAGIC = int.from_bytes(b"NKVE", "little")
VERSION = 1
HEADER_WORDS = 32
ALIGNMENT = 64

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ScoreVector:
    """One request and its answers in both modes; shapes as in README.md."""

    name: str
    bits: int
    k: int
    run_blocks: npt.NDArray[np.uint32]
    q: npt.NDArray[np.int8]
    c: npt.NDArray[np.uint16]
    r: npt.NDArray[np.uint8]
    b: npt.NDArray[np.int32]
    initial_total: npt.NDArray[np.int32]
    blocks: npt.NDArray[np.uint8]
    log_mass: npt.NDArray[np.int32]
    total: npt.NDArray[np.int32]
    positions: npt.NDArray[np.uint32]
    priorities: npt.NDArray[np.uint32]
    bad: npt.NDArray[np.uint32]

    @property
    def query(self) -> Query:
        """The request's query."""
        return Query(self.q, self.c, self.r, self.b)

    @property
    def segments(self) -> list[Segment]:
        """One segment per run; centre and scale, which the kernel does not see, are left at 0 and 1."""
        width = self.q.shape[1]
        parts = np.split(self.blocks, np.cumsum(self.run_blocks)[:-1])
        return [Segment(part, np.zeros(width, np.float32), 1.0, self.bits, width, 32 * len(part)) for part in parts]

    @property
    def scores(self) -> Scores:
        """The answer in mode MASS."""
        return Scores(self.log_mass, self.total, self.bad)


@dataclass(frozen=True)
class EncodeVector:
    """Keys and queries, and what they encode to; shapes as in README.md."""

    name: str
    bits: int
    stream: int
    first_block: int
    attention_scale: float
    scale: float
    keys: npt.NDArray[np.float32]
    centre: npt.NDArray[np.float32]
    blocks: npt.NDArray[np.uint8]
    queries: npt.NDArray[np.float32]
    q: npt.NDArray[np.int8]
    c: npt.NDArray[np.uint16]
    r: npt.NDArray[np.uint8]
    b: npt.NDArray[np.int32]
    token_scale: npt.NDArray[np.float64]

    @property
    def segment(self) -> Segment:
        """What the keys encode to."""
        tokens, head_dim = self.keys.shape
        return Segment(self.blocks, self.centre, self.scale, self.bits, head_dim, tokens)


def score_vectors() -> list[Path]:
    """Every score vector file, by name."""
    return sorted((FOLDER / "score").glob("*.bin"))


def encode_vectors() -> list[Path]:
    """Every encode vector file, by name."""
    return sorted((FOLDER / "encode").glob("*.bin"))


def load_score(path: Path) -> ScoreVector:
    """Read one file of ``score/``."""
    raw, w = _read(path, SCORE_MAGIC)
    bits, group, width, runs, blocks, size, k, count, bad = (int(word) for word in w[3:12])
    at = w[12:24]
    return ScoreVector(
        path.stem,
        bits,
        k,
        run_blocks=_section(raw, at[0], np.uint32, (runs,)),
        q=_section(raw, at[1], np.int8, (group, width)),
        c=_section(raw, at[2], np.uint16, (runs, group)),
        r=_section(raw, at[3], np.uint8, (runs, group)),
        b=_section(raw, at[4], np.int32, (runs, group)),
        initial_total=_section(raw, at[5], np.int32, (group,)),
        blocks=_section(raw, at[6], np.uint8, (blocks, size)),
        log_mass=_section(raw, at[7], np.int32, (group, blocks)),
        total=_section(raw, at[8], np.int32, (group,)),
        positions=_section(raw, at[9], np.uint32, (count,)),
        priorities=_section(raw, at[10], np.uint32, (count,)),
        bad=_section(raw, at[11], np.uint32, (bad,)),
    )


def load_encode(path: Path) -> EncodeVector:
    """Read one file of ``encode/``."""
    raw, w = _read(path, ENCODE_MAGIC)
    bits, head_dim, width, tokens, blocks, size, group, low, high, first = (int(word) for word in w[3:13])
    at = w[13:23]
    scale, attention_scale = _section(raw, at[2], np.float64, (2,))
    return EncodeVector(
        path.stem,
        bits,
        low | high << 32,
        first,
        float(attention_scale),
        float(scale),
        keys=_section(raw, at[0], np.float32, (tokens, head_dim)),
        centre=_section(raw, at[1], np.float32, (head_dim,)),
        blocks=_section(raw, at[3], np.uint8, (blocks, size)),
        queries=_section(raw, at[4], np.float32, (group, head_dim)),
        q=_section(raw, at[5], np.int8, (group, width)),
        c=_section(raw, at[6], np.uint16, (group,)),
        r=_section(raw, at[7], np.uint8, (group,)),
        b=_section(raw, at[8], np.int32, (group,)),
        token_scale=_section(raw, at[9], np.float64, (tokens,)),
    )


def pack(magic: int, words: Sequence[int], sections: Sequence[Array]) -> bytes:
    """The bytes of a vector file: ``words`` from word 3 on, then the offsets of ``sections``, then the sections."""
    offsets, body, end = [], bytearray(), 4 * HEADER_WORDS
    for section in sections:
        data = np.ascontiguousarray(section).astype(section.dtype.newbyteorder("<")).tobytes()
        offsets.append(end)
        body += data + bytes(-len(data) % ALIGNMENT)
        end = 4 * HEADER_WORDS + len(body)
    header = np.zeros(HEADER_WORDS, "<u4")
    used = [magic, VERSION, end, *words, *offsets]
    header[: len(used)] = used
    return header.tobytes() + bytes(body)


def _read(path: Path, magic: int) -> tuple[bytes, npt.NDArray[np.uint32]]:
    raw = path.read_bytes()
    words = np.frombuffer(raw, "<u4", HEADER_WORDS).astype(np.uint32)
    if words[0] != magic or words[1] != VERSION or words[2] != len(raw):
        raise ValueError(f"{path} is not a vector file of version {VERSION}: run tests/vectors/generate.py")
    return raw, words


def _section(raw: bytes, offset: int, kind: type[np.generic], shape: tuple[int, ...]) -> Array:
    little = np.dtype(kind).newbyteorder("<")
    return np.frombuffer(raw, little, int(np.prod(shape)), int(offset)).reshape(shape).astype(kind)
