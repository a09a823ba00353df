"""The native kernel and codec; ``nearkv_drivers.native`` documents and wraps it."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

_Run = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16], npt.NDArray[np.uint8], npt.NDArray[np.int32]]
_Request = tuple[npt.NDArray[np.int8], int, int, npt.NDArray[np.int32] | None, Sequence[_Run]]
_Command = tuple[
    npt.NDArray[np.int8],
    int,
    int,
    npt.NDArray[np.int32] | None,
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint32],
    npt.NDArray[np.uint16],
    npt.NDArray[np.uint8],
    npt.NDArray[np.int32],
]
_Result = tuple[
    npt.NDArray[np.int32],
    npt.NDArray[np.uint32],
    npt.NDArray[np.int32] | None,
    npt.NDArray[np.uint32],
    npt.NDArray[np.uint32],
]

class Start:
    @overload
    def __init__(self, memory: npt.NDArray[np.uint8], commands: Sequence[_Command]) -> None: ...
    @overload
    def __init__(self, requests: Sequence[_Request], isa: str = "") -> None: ...
    def done(self) -> bool: ...
    def finished(self) -> float: ...
    def wait(self) -> list[_Result]: ...

def isas() -> tuple[str, ...]: ...
def fold_total(initial: npt.NDArray[np.int32], log_mass: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]: ...
def top_k(
    log_mass: npt.NDArray[np.int32], total: npt.NDArray[np.int32], k: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
def encode_segments(
    keys: npt.NDArray[np.float32],
    bits: int,
    streams: npt.NDArray[np.uint64],
    first_blocks: npt.NDArray[np.uint32],
    centres: npt.NDArray[np.float32] | None,
    scales: npt.NDArray[np.float64] | None,
    isa: str = "",
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32], npt.NDArray[np.float64]]: ...
def can_adopt(
    keys: npt.NDArray[np.float32],
    bits: int,
    centres: npt.NDArray[np.float32],
    scales: npt.NDArray[np.float64],
    isa: str = "",
) -> npt.NDArray[np.uint8]: ...
def encode_queries(
    queries: npt.NDArray[np.float32],
    centres: npt.NDArray[np.float32],
    scales: npt.NDArray[np.float64],
    attention_scale: float,
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.uint16], npt.NDArray[np.uint8], npt.NDArray[np.int32]]: ...
def crc32c(data: npt.NDArray[np.uint8], seed: int = 0, isa: str = "") -> int: ...
def crc32c_rows(rows: npt.NDArray[np.uint8], isa: str = "") -> npt.NDArray[np.uint32]: ...
def crc32c_at(addresses: npt.NDArray[np.uint64], length: int) -> npt.NDArray[np.uint32]: ...
def look_up(
    where: npt.NDArray[np.int64], selected: npt.NDArray[np.int32], pinned: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], int]: ...
def locate(
    selected: npt.NDArray[np.int32],
    slot: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.uint64],
    landing: npt.NDArray[np.uint64],
) -> npt.NDArray[np.uint64]: ...
def admit(
    resident: npt.NDArray[np.int32],
    where: npt.NDArray[np.int64],
    addresses: npt.NDArray[np.uint64],
    quota: npt.NDArray[np.int64],
    selected: npt.NDArray[np.int32],
    slot: npt.NDArray[np.int64],
    values: npt.NDArray[np.int64],
    pinned: int,
    fetched: npt.NDArray[np.uint8],
) -> tuple[int, int]: ...
def attend(
    queries: npt.NDArray[np.float32],
    blocks: npt.NDArray[np.uint64],
    tails: npt.NDArray[np.uint64],
    tail_tokens: npt.NDArray[np.int64],
    dtype: str,
    scale: float,
    isa: str = "",
) -> npt.NDArray[np.float32]: ...
def tail_mass(
    queries: npt.NDArray[np.float32],
    tails: npt.NDArray[np.uint64],
    tail_tokens: npt.NDArray[np.int64],
    dtype: str,
    scale: float,
    isa: str = "",
) -> npt.NDArray[np.int32]: ...
def copy_blocks(sources: npt.NDArray[np.uint64], destinations: npt.NDArray[np.uint64], length: int) -> None: ...
def lookahead_report(
    selected: npt.NDArray[np.int64],
    seen: npt.NDArray[np.int64],
    means: npt.NDArray[np.float32],
    powers: npt.NDArray[np.float32],
    blocks: npt.NDArray[np.int32],
    priority: npt.NDArray[np.uint32],
    step: int,
    chosen: bool,
) -> None: ...
def lookahead_values(
    selected: npt.NDArray[np.int64],
    seen: npt.NDArray[np.int64],
    means: npt.NDArray[np.float32],
    powers: npt.NDArray[np.float32],
    blocks: npt.NDArray[np.int32],
    step: int,
    window: int,
) -> npt.NDArray[np.int64]: ...
def share_budget(
    positions: list[npt.NDArray[np.uint32] | None],
    priorities: list[npt.NDArray[np.uint32] | None],
    candidates: npt.NDArray[np.int64],
    room: int,
    sinks: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]: ...
def summary_products(
    rows: npt.NDArray[Any],
    streams: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    features: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]: ...
def summary_shares(
    log_mass: npt.NDArray[np.float32], counts: npt.NDArray[np.int64], outside: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]: ...
def choose_candidates(
    shares: npt.NDArray[np.float32], counts: npt.NDArray[np.int64], fractions: npt.NDArray[np.float64], sinks: int
) -> npt.NDArray[np.uint8]: ...
def encode_blocks(
    sources: npt.NDArray[np.uint64],
    codes: npt.NDArray[np.uint8],
    head_dim: int,
    bits: int,
    dtype: str,
    isa: str = "",
) -> tuple[npt.NDArray[np.uint16], int]: ...
def decode_blocks(
    codes: npt.NDArray[np.uint64],
    scales: npt.NDArray[np.uint16],
    targets: npt.NDArray[np.uint64],
    head_dim: int,
    bits: int,
    dtype: str,
    isa: str = "",
) -> None: ...
