"""Kernel command and result memory (``docs/kernel-interface.md``): bytes for a list of commands, and back.

What the RTL and the HLS kernel read and write, whoever carries it there: the Verilated kernel, a cocotb bench, a card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearkv_drivers.device import Mode, ScoreResult
from nearkv_drivers.kernel import Command
from nearkv_drivers.wire import EMPTY, MAX_GROUP

BEAT = 64
"""Bytes of one 512-bit beat; everything in memory is a multiple of it."""

RUN_DTYPE = np.dtype(
    {
        "names": ["address", "blocks", "r", "c", "b"],
        "formats": ["<u8", "<u4", ("u1", 16), ("<u2", 16), ("<i4", 16)],
        "offsets": [0, 8, 16, 32, 64],
        "itemsize": 128,
    }
)
REQUEST_DTYPE = np.dtype(
    {
        "names": [
            "query_offset", "descriptor_offset", "result_offset", "runs", "blocks", "k",
            "bits", "width32", "group", "mode",
        ],
        "formats": ["<u8", "<u8", "<u8", "<u4", "<u4", "<u4", "u1", "u1", "u1", "u1"],
        "offsets": [0, 8, 16, 24, 28, 32, 36, 37, 38, 39],
        "itemsize": 64,
    }
)  # fmt: skip
COMPLETION_DTYPE = np.dtype(
    [(name, "<u4") for name in ("status", "failed", "completed", "version", "cycles", "beats", "stream_cycles")]
)


@dataclass(frozen=True)
class CommandImage:
    """One kernel start: ``commands`` (uint8), where each result lies, and the size of the result area in bytes."""

    commands: npt.NDArray[np.uint8]
    result_offsets: tuple[int, ...]
    result_bytes: int


def result_beats(command: Command) -> int:
    """Beats to reserve for the result of ``command``."""
    blocks = int(command.blocks.sum())
    tiles = command.q.shape[0] * -(-blocks // 16)
    payload = -(-min(command.k, blocks) // 8) if command.mode is Mode.TOPK else tiles
    return 2 + -(-blocks // 512) + payload


def pack_commands(commands: Sequence[Command]) -> CommandImage:
    """Lay out request records, query blocks and run descriptors."""
    records = np.zeros(len(commands), REQUEST_DTYPE)
    parts: list[npt.NDArray[np.uint8]] = []
    offset, result_offset, result_offsets = records.nbytes, BEAT, []
    for record, command in zip(records, commands, strict=True):
        queries, runs = _query_block(command), _run_descriptors(command)
        record["query_offset"], record["descriptor_offset"] = offset, offset + queries.nbytes
        record["result_offset"] = result_offset
        record["runs"], record["blocks"] = len(command.blocks), command.blocks.sum()
        record["k"], record["bits"], record["mode"] = command.k, command.bits, command.mode.value
        record["group"], record["width32"] = command.q.shape[0], command.q.shape[1] // 32
        parts += [queries, runs]
        offset += queries.nbytes + runs.nbytes
        result_offsets.append(result_offset)
        result_offset += BEAT * result_beats(command)
    return CommandImage(np.concatenate([records.view(np.uint8), *parts]), tuple(result_offsets), result_offset)


def _query_block(command: Command) -> npt.NDArray[np.uint8]:
    """T0 and the query rows, uint8."""
    group, width = command.q.shape
    total = np.full(MAX_GROUP, EMPTY, "<i4")
    total[:group] = command.initial_total
    rows = np.zeros((group, max(width, BEAT)), np.int8)
    rows[:, :width] = command.q
    return np.concatenate([total.view(np.uint8), rows.reshape(-1).view(np.uint8)])


def _run_descriptors(command: Command) -> npt.NDArray[np.uint8]:
    """The run descriptors, uint8."""
    table = np.zeros(len(command.blocks), RUN_DTYPE)
    group = command.q.shape[0]
    table["address"], table["blocks"] = command.addresses, command.blocks
    table["c"][:, :group], table["r"][:, :group], table["b"][:, :group] = command.c, command.r, command.b
    return table.view(np.uint8)


def parse_completion(record: bytes) -> dict[str, int]:
    """The completion record's fields."""
    fields = np.frombuffer(record, COMPLETION_DTYPE, 1)[0]
    return {name: int(fields[name]) for name in COMPLETION_DTYPE.names or ()}


def parse_result(mode: Mode, data: bytes | npt.NDArray[np.uint8]) -> ScoreResult:
    """The result of a command in ``mode`` from its bytes (as many as ``result_beats`` says).

    Raises ValueError where the bytes contradict themselves.
    """
    words = np.frombuffer(data, "<u4")
    count, bad_count, blocks, group = (int(v) for v in words[:4])
    total = words[16 : 16 + group].view(np.int32).copy()
    map_words = 16 * -(-blocks // 512)
    flags = np.unpackbits(words[32 : 32 + map_words].view(np.uint8), bitorder="little")
    bad = np.flatnonzero(flags).astype(np.uint32)
    if len(bad) != bad_count:
        raise ValueError(f"the bitmap has {len(bad)} bad blocks, the header says {bad_count}")
    payload = words[32 + map_words :]
    if mode is Mode.TOPK:
        pairs = payload[: 2 * count].reshape(-1, 2)
        return ScoreResult(total, bad, pairs[:, 0].copy(), pairs[:, 1].copy())
    tiles = payload[: 16 * group * -(-blocks // 16)].reshape(-1, group, 16)
    rows = tiles.transpose(1, 0, 2).reshape(group, -1)
    if rows[:, blocks:].any():
        raise ValueError("positions past the end of a tile are not zero")
    return ScoreResult(total, bad, log_mass=np.ascontiguousarray(rows[:, :blocks]).view(np.int32))
