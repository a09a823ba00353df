"""The shared budget in native code against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkv_drivers.selection import share_budget
from nearkv_drivers.wire import ContractError


def by_definition(rankings, candidates, room, sinks):
    """Rows of (block, priority) per stream, sinks first."""
    pool = []
    for stream, ranking in enumerate(rankings):
        ranked = [(block, 2**32) for block in range(candidates[stream])] if ranking is None else ranking
        pool += [(-priority, len(pool) + i, stream, block) for i, (block, priority) in enumerate(ranked)]
    taken = sorted(each for each in pool if each[3] >= sinks)[:room]
    rows = [[(block, 0) for block in range(sinks)] for _ in rankings]
    for priority, _, stream, block in sorted(taken, key=lambda each: each[1]):
        rows[stream].append((block, min(-priority, 2**32 - 1)))
    return rows


RANKING = st.none() | st.lists(st.integers(0, 30), unique=True, max_size=12).flatmap(
    lambda blocks: st.lists(st.integers(0, 5), min_size=len(blocks), max_size=len(blocks)).map(
        lambda priorities: list(zip(blocks, sorted(priorities, reverse=True), strict=True))
    )
)


@given(st.lists(RANKING, min_size=1, max_size=4), st.integers(0, 20), st.integers(0, 2), st.integers(2, 9))
def test_the_best_blocks_of_all_streams_share_the_budget(rankings, room, sinks, count):
    candidates = np.full(len(rankings), count, np.int64)
    columns = [
        [None if ranking is None else np.array([each[part] for each in ranking], np.uint32) for ranking in rankings]
        for part in (0, 1)
    ]
    selected, priority = share_budget(*columns, candidates, room, sinks)
    expected = by_definition(rankings, candidates.tolist(), room, sinks)
    width = max(map(len, expected))
    assert selected.shape == priority.shape == (len(rankings), width)
    assert (selected.dtype, priority.dtype) == (np.int32, np.uint32)
    for row, blocks, shares in zip(expected, selected.tolist(), priority.tolist(), strict=True):
        assert blocks == [block for block, _ in row] + [-1] * (width - len(row))
        assert shares == [share for _, share in row] + [0] * (width - len(row))


@pytest.mark.parametrize(
    ("positions", "priorities", "candidates"),
    [([np.ones(2, np.uint32)], [np.ones(1, np.uint32)], 1), ([None], [np.ones(1, np.uint32)], 1), ([None], [None], 2)],
)
def test_lists_that_do_not_fit_are_refused(positions, priorities, candidates):
    with pytest.raises(ContractError, match="positions"):
        share_budget(positions, priorities, np.ones(candidates, np.int64), 1, 0)
