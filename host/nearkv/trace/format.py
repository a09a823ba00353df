"""The trace file: every step's selections and scores, compact. ``docs/traces.md`` describes it field by field."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

VERSION = 1

NO_BLOCK = 0xFFFF
"""Padding of a ranking, and the first block index that a trace cannot name (2,097,120 tokens)."""

LOG_STEPS = 2048
"""Stored priorities are log2 with this many steps per octave: a relative error below 0.02 %."""


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
    target = Path(path)
    descriptor, name = tempfile.mkstemp(dir=target.parent or ".", prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez_compressed(
                file,
                info=np.frombuffer(json.dumps(asdict(trace.info)).encode(), np.uint8),
                ranked=np.where(trace.ranked < 0, NO_BLOCK, trace.ranked).astype("<u2"),
                priority=pack_priority(trace.priority).astype("<u2"),
                tokens=trace.tokens.astype("<u4"),
                prompt=trace.prompt.astype("<f4"),
            )
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: str | Path) -> Trace:
    """Read a trace. Raises TraceError for a file that is missing, damaged, of another version or inconsistent."""
    if Path(path).is_file() and not zipfile.is_zipfile(path):
        raise TraceError(f"{path}: not a trace, or one that was cut short; record it anew with `nearkv trace record`")
    try:
        with np.load(path, allow_pickle=False) as file:
            fields = json.loads(file["info"].tobytes())
            if fields.get("version") != VERSION:
                raise TraceError(f"{path}: trace version {fields.get('version')}, this reads version {VERSION}")
            ranked = file["ranked"].astype(np.int32)
            ranked[ranked == NO_BLOCK] = -1
            trace = Trace(
                TraceInfo(**fields), ranked, unpack_priority(file["priority"]), file["tokens"], file["prompt"]
            )
    except FileNotFoundError as error:
        raise TraceError(f"{path}: no such trace; make one with `nearkv trace record`") from error
    except (OSError, zipfile.BadZipFile, KeyError, TypeError, json.JSONDecodeError, EOFError) as error:
        raise TraceError(f"{path}: not a trace, or a damaged one ({error})") from error
    except ValueError as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{path}: not a trace, or a damaged one ({error})") from error
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
    info, shape = trace.info, trace.ranked.shape
    for name in ("layers", "streams", "block_tokens", "selected_blocks", "kv_block_bytes"):
        if getattr(info, name) < 1:
            raise TraceError(f"{path}: {name} is {getattr(info, name)}, it must be at least 1")
    if not 0 <= info.prompt_steps < len(trace.tokens):
        raise TraceError(
            f"{path}: {len(trace.tokens)} steps, of which {info.prompt_steps} are the prompt's: none is left to replay"
        )
    expected = (len(trace.tokens), info.layers, info.streams)
    width = trace.always + info.selected_blocks
    if len(shape) != 4 or shape[:3] != expected or shape[3] < width or trace.priority.shape != shape:
        raise TraceError(f"{path}: rankings {list(shape)} do not fit {list(expected)} steps, layers and streams")
    if trace.prompt.ndim != 3 or trace.prompt.shape[:2] != expected[1:]:
        raise TraceError(f"{path}: the prompt's shares {list(trace.prompt.shape)} do not fit the layers and streams")
