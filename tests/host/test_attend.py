"""Both attention steps, in place and gathered, attend the same blocks and newest tokens alike."""

import numpy as np
import pytest
import torch

from nearkv.cache.attend import GatheredAttention, InPlaceAttention, Queries
from nearkv.cache.buffers import BlockBuffer, aligned_bytes, token_view
from nearkv.cache.geometry import Geometry
from nearkv.cache.stats import CacheStats
from nearkv.cache.tail import Tail
from nearkv.policy import create

from tests.host.pools import make_pool, reader

GEOMETRIES = [
    Geometry(2, 2, 32, torch.float32, 4),
    Geometry(1, 3, 80, torch.float16, 4),  # blocks of 10,240 bytes, padded to 12,288
    Geometry(2, 1, 48, torch.bfloat16, 8),
]
SELECTED, SHARE, HOT = 5, 4, 3


def random_bytes(shape: tuple[int, ...], geometry: Geometry) -> np.ndarray:
    blocks = aligned_bytes(int(np.prod(shape)) * geometry.kv_block_bytes).reshape(*shape, geometry.kv_block_bytes)
    view = token_view(blocks, geometry)
    view.copy_(torch.randn(view.shape))
    return blocks


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("counts", [(64, 64), (33, 1)])
@pytest.mark.parametrize("missing", [False, True])
def test_in_place_equals_gathered(geometry, counts, missing):
    g = geometry
    torch.manual_seed(0)
    tail, stats = Tail(g, 1, torch.device("cpu")), CacheStats()
    tail.pairs.copy_(torch.randn(tail.pairs.shape))
    tail.length = list(counts[: g.batch])
    pool, hot = make_pool(g, create("hit_rate"), SHARE), random_bytes((g.streams, SHARE + g.streams), g)
    pool.fill(
        np.arange(g.streams, dtype=np.int32)[:, None] + np.arange(HOT, dtype=np.int32), reader(lambda *at: hot[at])
    )
    selected = np.tile(np.arange(SELECTED, dtype=np.int32), (g.streams, 1))
    if missing:
        selected[0, 2:] = -1
    plan = pool.plan(selected)
    assert plan.hits
    assert len(plan.misses[0])
    buffer = BlockBuffer(g)
    buffer.reserve(SELECTED + 2)
    buffer.bytes[:] = random_bytes((g.streams, SELECTED + 2), g)
    queries = Queries(torch.randn(g.batch, g.kv_heads, 3, g.head_dim).to(g.dtype))
    in_place = InPlaceAttention(g, tail, stats)
    gathered = GatheredAttention(g, tail, stats, torch.device("cpu"))
    got = in_place.attend(queries, plan, pool, buffer, 0.2)
    want = gathered.attend(queries, plan, pool, buffer, 0.2)
    assert got.dtype == want.dtype
    precision = 4 * torch.finfo(g.dtype).eps  # SDPA rounds its weights to the type of the values
    torch.testing.assert_close(got, want, rtol=precision, atol=precision)
    assert np.abs(in_place.tail_mass(queries, 0.2) - gathered.tail_mass(queries, 0.2)).max() <= 1
