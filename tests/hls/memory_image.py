"""Requests to command memory and result memory back, by the offsets in ``fpga/registers.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import Mode, ScoreResult
from nearkv_drivers.wire import EMPTY, Query, Segment

ROOT = Path(__file__).parents[2]
REGISTERS: dict[str, Any] = json.loads((ROOT / "fpga/registers.json").read_text())
STATUS: dict[str, int] = REGISTERS["status"]
BEAT = 64
_TYPES = {"u64": "<u8", "u32": "<u4", "u8": "u1", "u8[16]": "(16,)u1", "u16[16]": "(16,)<u2", "i32[16]": "(16,)<i4"}


def _dtype(name: str) -> np.dtype[np.void]:
    record = REGISTERS["records"][name]
    names, offsets, kinds = zip(*((f, at, _TYPES[kind]) for f, at, kind in record["fields"]), strict=True)
    return np.dtype({"names": names, "formats": kinds, "offsets": offsets, "itemsize": record["bytes"]})


REQUEST, DESCRIPTOR, COMPLETION, RESULT = (_dtype(n) for n in ("request", "descriptor", "completion", "result"))


@dataclass
class Job:
    """One request: the query and, per run, the score blocks (uint8 [n, block bytes]) that it names."""

    query: Query
    runs: Sequence[npt.NDArray[np.uint8]]
    bits: int
    mode: Mode
    k: int = 0
    initial_total: npt.NDArray[np.int32] | None = None

    @classmethod
    def of(cls, query: Query, segments: Sequence[Segment], mode: Mode, k: int = 0, initial: Any = None) -> Job:
        """A job over whole segments, one run each."""
        return cls(query, [s.blocks for s in segments], segments[0].bits, mode, k, initial)

    @property
    def blocks(self) -> int:
        return sum(len(run) for run in self.runs)

    @property
    def segments(self) -> list[Segment]:
        """The runs as segments: a kernel does not ask for centre and scale, which the query holds already."""
        return [Segment(run, np.zeros(1, np.float32), 1.0, self.bits, self.query.width, 0) for run in self.runs]


@dataclass
class Image:
    """What the kernel is given: command and key memory (uint8) and room for results, cleared."""

    commands: npt.NDArray[np.uint8]
    keys: npt.NDArray[np.uint8]
    results: npt.NDArray[np.uint8]
    jobs: Sequence[Job]
    result_offsets: list[int] = field(default_factory=list)

    @property
    def requests(self) -> npt.NDArray[np.void]:
        """The request records, writable in place."""
        return self.commands[: BEAT * len(self.jobs)].view(REQUEST)

    def descriptors(self, job: int) -> npt.NDArray[np.void]:
        """The descriptors of one job, writable in place."""
        start = int(self.requests[job]["descriptor_offset"])
        return self.commands[start : start + DESCRIPTOR.itemsize * len(self.jobs[job].runs)].view(DESCRIPTOR)


def pack(jobs: Sequence[Job]) -> Image:
    """Lay out ``jobs``: records, then per job its query block and descriptors; keys with a beat between runs."""
    requests = np.zeros(len(jobs), REQUEST)
    parts: list[npt.NDArray[np.uint8]] = [np.empty(0, np.uint8)]
    keys: list[npt.NDArray[np.uint8]] = [np.full(BEAT, 0xA5, np.uint8)]
    command_end, key_end, result_end = BEAT * len(jobs), BEAT, BEAT
    for request, job in zip(requests, jobs, strict=True):
        rows = _query_block(job)
        descriptors = np.zeros(len(job.runs), DESCRIPTOR)
        group = job.query.group
        for i, run in enumerate(job.runs):
            descriptors[i]["address"], descriptors[i]["blocks"] = key_end, len(run)
            for name in "rcb":
                descriptors[i][name][:group] = getattr(job.query, name)[i]
            keys += [run.reshape(-1), np.full(BEAT, 0xA5, np.uint8)]
            key_end += run.size + BEAT
        request["query_offset"], request["descriptor_offset"] = command_end, command_end + rows.size
        request["result_offset"], request["runs"], request["blocks"] = result_end, len(job.runs), job.blocks
        request["k"], request["bits"], request["width32"] = job.k, job.bits, job.query.width // 32
        request["group"], request["mode"] = group, job.mode.value
        parts += [rows, descriptors.view(np.uint8).reshape(-1)]
        command_end += rows.size + descriptors.nbytes
        result_end += _result_bytes(job)
    commands = np.concatenate([requests.view(np.uint8), *parts])
    offsets = [int(offset) for offset in requests["result_offset"]]
    return Image(commands, np.concatenate(keys), np.full(result_end, 0xEE, np.uint8), jobs, offsets)


def completion(image: Image) -> npt.NDArray[np.void]:
    """The completion record (0-d structured array)."""
    return image.results[:BEAT].view(COMPLETION)[0]


def unpack(image: Image, job: int) -> ScoreResult:
    """The result of one job."""
    asked, at = image.jobs[job], image.result_offsets[job]
    head = image.results[at : at + RESULT.itemsize].view(RESULT)[0]
    group, blocks = int(head["group"]), int(head["blocks"])
    assert (group, blocks) == (asked.query.group, asked.blocks)
    assert not head["total"][group:].any()
    at += RESULT.itemsize
    bitmap = image.results[at : at + BEAT * -(-blocks // 512)]
    bad = np.flatnonzero(np.unpackbits(bitmap, bitorder="little")).astype(np.uint32)
    assert len(bad) == head["bad"]
    at += bitmap.size
    total = head["total"][:group].copy()
    if asked.mode is Mode.TOPK:
        count = int(head["count"])
        payload = image.results[at : at + BEAT * -(-count // 8)].view("<u4").reshape(-1, 2)
        assert not payload[count:].any()
        return ScoreResult(total, bad, payload[:count, 0].copy(), payload[:count, 1].copy())
    assert head["count"] == blocks
    tiles = image.results[at : at + BEAT * group * -(-blocks // 16)].view("<i4").reshape(-1, group, 16)
    rows = tiles.transpose(1, 0, 2).reshape(group, -1)
    assert not rows[:, blocks:].any()
    return ScoreResult(total, bad, log_mass=rows[:, :blocks].copy())


def _query_block(job: Job) -> npt.NDArray[np.uint8]:
    group, width = job.query.q.shape
    initial = np.full(16, 0x5A5A5A5A, "<i4")  # entries from G on are ignored
    initial[:group] = EMPTY if job.initial_total is None else job.initial_total
    rows = np.full((group, max(width, BEAT)), 0x5A, np.uint8)
    rows[:, :width] = job.query.q.view(np.uint8)
    return np.concatenate([initial.view(np.uint8), rows.reshape(-1)])


def _result_bytes(job: Job) -> int:
    payload = -(-min(job.k, job.blocks) // 8) if job.mode is Mode.TOPK else job.query.group * -(-job.blocks // 16)
    return BEAT * (2 + -(-job.blocks // 512) + payload)
