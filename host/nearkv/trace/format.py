"""The trace file: every step's selections and scores, compact. ``docs/traces.md`` describes it field by field."""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nearkv.files import whole_file

VERSION = 1

NO_BLOCK = 0xFFFF
"""Padding of a ranking, and the first block index that a trace cannot name (2,097,120 tokens)."""

LOG_STEPS = 2048
"""Stored priorities are log2 with this many steps per octave: a relative error below 0.02 %."""


_DTYPES = {"ranked": "<u2", "priority": "<u2", "tokens": "<u4", "prompt": "<f4"}

_TEXTS = ("model", "text", "scorer")
_MAY_BE_ZERO = ("sink_blocks", "recent_blocks", "prompt_steps")

_DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile)
"""What a damaged archive makes its readers stumble on (unknown compression and deep JSON are RuntimeErrors)."""


class TraceError(ValueError):
    """A trace that cannot be written or read; the message names the file and what is wrong."""


@dataclass(frozen=True)
class TraceInfo:
    """What a trace was recorded from. Sizes are per block of one stream."""

    model: str
    text: str
    scorer: str
    layers: int
    streams: int
    block_tokens: int
    sink_blocks: int
    recent_blocks: int
    selected_blocks: int
    kv_block_bytes: int
    prompt_steps: int
    version: int = VERSION


@dataclass(frozen=True)
class Trace:
    """One recorded decode. T steps, L layers, S streams per layer, m ranked blocks.

    The first ``info.prompt_steps`` steps are the prompt's last queries, for warm-up; decoding starts behind them.

    ``ranked`` is int32 [T, L, S, m], -1 padded: first the sink and recent blocks (always in, in order of position),
    then the blocks selected by score, best first, then the best of those that were not selected. Where a block
    belongs is given by ``info``: the first sink + recent + selected entries are the step's selection. ``priority``
    is uint32 of the same shape, shares of the attention mass in units of 2^-24 summed over the heads of a group.
    ``tokens`` is uint32 [T]: tokens of the context at the step. ``prompt`` is float32 [L, S, blocks]: the
    share of the mass that the prompt's last queries gave to each block (:func:`nearkv.tiers.warmup.prompt_shares`).
    """

    info: TraceInfo
    ranked: npt.NDArray[np.int32]
    priority: npt.NDArray[np.uint32]
    tokens: npt.NDArray[np.uint32]
    prompt: npt.NDArray[np.float32]

    @property
    def always(self) -> int:
        """Entries of a ranking that hold blocks which are always in."""
        return self.info.sink_blocks + self.info.recent_blocks

    @property
    def chosen(self) -> npt.NDArray[np.int32]:
        """Blocks selected by score: a view [T, L, S, selected_blocks]."""
        return self.ranked[..., self.always : self.always + self.info.selected_blocks]


def save(trace: Trace, path: str | Path) -> None:
    """Write ``trace`` to ``path`` whole or not at all. Raises TraceError if a block index does not fit 16 bits."""
    if int(trace.ranked.max(initial=0)) >= NO_BLOCK:
        raise TraceError(f"a trace names blocks below {NO_BLOCK}; this context is too long for trace version {VERSION}")
    with whole_file(path) as file:
        np.savez_compressed(
            file,
            info=np.frombuffer(json.dumps(asdict(trace.info)).encode(), np.uint8),
            ranked=np.where(trace.ranked < 0, NO_BLOCK, trace.ranked).astype("<u2"),
            priority=pack_priority(trace.priority).astype("<u2"),
            tokens=trace.tokens.astype("<u4"),
            prompt=trace.prompt.astype("<f4"),
        )


def load(path: str | Path) -> Trace:
    """Read a trace. Raises TraceError for a file that is missing, damaged, of another version or inconsistent."""
    if not Path(path).exists():
        raise TraceError(f"{path}: no such trace; make one with `nearkv trace record`")
    if not Path(path).is_file() or not zipfile.is_zipfile(path):
        raise TraceError(f"{path}: not a trace, or one that was cut short; record it anew with `nearkv trace record`")
    try:
        with np.load(path, allow_pickle=False) as file:
            fields = dict(json.loads(file["info"].tobytes()))
            entries = {name: file[name] for name in _DTYPES}
    except (*_DAMAGE, zlib.error) as error:
        raise TraceError(f"{path}: not a trace, or a damaged one ({error})") from error
    if fields.get("version") != VERSION:
        raise TraceError(f"{path}: trace version {fields.get('version')}, this reads version {VERSION}")
    for name, dtype in _DTYPES.items():
        if entries[name].dtype != dtype:
            raise TraceError(f"{path}: {name} is {entries[name].dtype}, not {np.dtype(dtype)}")
    ranked = entries["ranked"].astype(np.int32)
    ranked[ranked == NO_BLOCK] = -1
    try:
        info = TraceInfo(**fields)
    except TypeError as error:
        raise TraceError(f"{path}: not a trace, or a damaged one ({error})") from error
    trace = Trace(info, ranked, unpack_priority(entries["priority"]), entries["tokens"], entries["prompt"])
    _check(trace, path)
    return trace


def pack_priority(priority: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint16]:
    """Priorities to 16 bits: round(2048 · log2(p + 1))."""
    code = np.rint(np.log2(priority.astype(np.float64) + 1) * LOG_STEPS)
    return np.asarray(np.minimum(code, 0xFFFF), np.uint16)


def unpack_priority(code: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint32]:
    """The inverse: round(2^(code / 2048)) - 1."""
    value = np.exp2(code.astype(np.float64) / LOG_STEPS) - 1
    return np.asarray(np.minimum(np.rint(value), 2**32 - 1), np.uint32)


def _check(trace: Trace, path: str | Path) -> None:
    """Raise TraceError where the parts of ``trace`` do not fit each other."""
    info, shape = trace.info, trace.ranked.shape
    for name, given in vars(info).items():
        least = 0 if name in _MAY_BE_ZERO else 1
        if name in _TEXTS and not isinstance(given, str):
            raise TraceError(f"{path}: {name} is {given!r}, it must be a text")
        if name not in _TEXTS and (type(given) is not int or not least <= given < 2**31):
            raise TraceError(f"{path}: {name} is {given!r}, it must be a whole number of {least} or more, below 2^31")
    tokens = trace.tokens.astype(np.int64)
    if tokens.ndim != 1 or (tokens < 1).any() or (np.diff(tokens) < 0).any():
        raise TraceError(f"{path}: the tokens of the steps must be one row of counts that do not fall")
    if info.prompt_steps >= len(tokens):
        raise TraceError(
            f"{path}: {len(tokens)} steps, of which {info.prompt_steps} are the prompt's: none is left to replay"
        )
    expected = (len(tokens), info.layers, info.streams)
    width = trace.always + info.selected_blocks
    if len(shape) != 4 or shape[:3] != expected or shape[3] < width or trace.priority.shape != shape:
        raise TraceError(f"{path}: rankings {list(shape)} do not fit {list(expected)} steps, layers and streams")
    blocks = -(-tokens // info.block_tokens)
    if (trace.ranked.max(axis=(1, 2, 3)) >= blocks).any():
        raise TraceError(f"{path}: rankings name blocks beyond the tokens of their step")
    if not (trace.chosen[info.prompt_steps :] >= 0).any():
        raise TraceError(f"{path}: no step selects a block: nothing is left to replay")
    prompt = trace.prompt
    if prompt.ndim != 3 or prompt.shape[:2] != expected[1:] or prompt.shape[2] < blocks[info.prompt_steps]:
        raise TraceError(
            f"{path}: the prompt's shares {list(prompt.shape)} do not fit the layers, streams and blocks "
            f"{[*expected[1:], int(blocks[info.prompt_steps])]}"
        )
    if not np.isfinite(prompt).all():
        raise TraceError(f"{path}: the prompt's shares are not finite")
