"""Ask the device which blocks matter: queries to a score request per stream, results to a selection."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.cache.store import LayerStore, StreamIndex
from nearkv_drivers import native
from nearkv_drivers.device import Device, Mode, Run, ScoreRequest, ScoreResult


def runs_of(index: StreamIndex, blocks: int) -> list[tuple[int, int, int]]:
    """(drive offset, blocks, segment) of the runs that hold the first ``blocks`` score blocks of a stream."""
    runs = []
    for run in index.runs:
        count = min(run.blocks, blocks)
        if count <= 0:
            break
        runs.append((run.offset, count, run.segment))
        blocks -= count
    return runs


def score_layer(
    device: Device,
    store: LayerStore,
    queries: npt.NDArray[np.float32],
    candidates: npt.NDArray[np.int64],
    wanted: npt.NDArray[np.int64],
    most: npt.NDArray[np.int64],
    scale: float,
    tail_mass: npt.NDArray[np.int32],
) -> list[ScoreResult | None]:
    """Score the first ``candidates[s]`` blocks of each stream s and return its best, up to ``most[s]``.

    ``queries`` is float32 [S, G, d]; ``tail_mass`` int32 [S, G] the log-mass of the newest tokens (T0), so that
    priorities are shares of the whole attention. Streams whose part of the budget, ``wanted[s]``, holds all their
    candidates are not scored (None).
    """
    asked = np.flatnonzero(wanted < candidates)
    results: list[ScoreResult | None] = [None] * len(store.streams)
    if not len(asked):
        return results
    centres, scales = store.scaling(asked)
    q, c, r, b = native.encode_queries(queries[asked], centres, scales, scale)
    requests = []
    for at, stream in enumerate(asked.tolist()):
        runs = [
            Run(offset, count, c[at, segment], r[at, segment], b[at, segment])
            for offset, count, segment in runs_of(store.streams[stream], int(candidates[stream]))
        ]
        requests.append(
            ScoreRequest(
                runs, q[at], store.geometry.bits, Mode.TOPK, int(most[stream]), initial_total=tail_mass[stream]
            )
        )
    for stream, result in zip(asked.tolist(), device.submit(requests).wait(), strict=True):
        results[stream] = result
    return results
