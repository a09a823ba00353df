"""Kernel command and result memory of score requests: run offsets become addresses as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearkv_drivers.device import ScoreRequest, ScoreResult
from nearkv_drivers.kernel import Command
from nearkv_drivers.kernel_memory import (
    REQUEST_DTYPE,
    RUN_DTYPE,
    CommandImage,
    pack_commands,
    parse_completion,
)
from nearkv_drivers.kernel_memory import parse_result as parse_mode
from nearkv_drivers.kernel_memory import result_beats as beats_of
from nearkv_drivers.wire import EMPTY


def command(request: ScoreRequest) -> Command:
    """``request`` as a kernel reads it."""
    group, runs = request.q.shape[0], request.runs
    start = request.initial_total
    return Command(
        np.array([run.offset for run in runs], np.uint64),
        np.array([run.blocks for run in runs], np.uint32),
        np.array([run.c for run in runs], np.uint16).reshape(len(runs), group),
        np.array([run.r for run in runs], np.uint8).reshape(len(runs), group),
        np.array([run.b for run in runs], np.int32).reshape(len(runs), group),
        request.q,
        np.full(group, EMPTY, np.int32) if start is None else start,
        request.bits,
        request.mode,
        request.k,
    )


def result_beats(request: ScoreRequest) -> int:
    """Beats to reserve for the result of ``request``."""
    return beats_of(command(request))


def build_commands(requests: Sequence[ScoreRequest]) -> CommandImage:
    """Request records, query blocks and run descriptors."""
    return pack_commands([command(request) for request in requests])


def parse_result(request: ScoreRequest, data: bytes) -> ScoreResult:
    """The result of ``request`` from its bytes (as many as ``result_beats`` says)."""
    return parse_mode(request.mode, data)


__all__ = [
    "REQUEST_DTYPE",
    "RUN_DTYPE",
    "CommandImage",
    "build_commands",
    "parse_completion",
    "parse_result",
    "result_beats",
]
