"""Ask the device which blocks matter: queries to a score request per stream, results to a selection."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.cache.store import LayerStore
from nearkv_drivers import native
from nearkv_drivers.device import Device, Mode, ScoreRequest, ScoreResult
from nearkv_drivers.runs import RunTable


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
    if len(asked) < len(queries):
        queries = queries[asked]
    q, c, r, b = native.encode_queries(queries, centres, scales, scale)
    requests = []
    for at, stream in enumerate(asked.tolist()):
        places, segments = store.streams[stream].first_runs(int(candidates[stream]))
        runs = RunTable(places, c[at, segments], r[at, segments], b[at, segments])
        requests.append(
            ScoreRequest(
                runs, q[at], store.geometry.bits, Mode.TOPK, int(most[stream]), initial_total=tail_mass[stream]
            )
        )
    for stream, result in zip(asked.tolist(), device.submit(requests).wait(), strict=True):
        results[stream] = result
    return results
