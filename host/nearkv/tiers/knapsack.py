"""Multiple-choice knapsack: one option per group, greatest benefit within a limit on the cost."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def greedy(cost: Ints, benefit: Ints, limit: int) -> Ints:
    """Option per group, int64 [N]: start at the cheapest, then always the step of most benefit per unit of cost.

    ``cost`` and ``benefit`` are [N, W]. Steps go along each group's upper convex hull, so the result is exact for the
    limits at which a step ends, and loses at most one step's benefit between them. Raises ValueError if even the
    cheapest options exceed ``limit``.
    """
    choice = cheapest(cost, limit)
    spent = int(cost[np.arange(len(cost)), choice].sum())
    steps = [step for group in range(len(cost)) for step in _hull(cost, benefit, int(choice[group]), group)]
    for _, group, option in sorted(steps, key=lambda step: (-step[0], step[1])):
        more = int(cost[group, option] - cost[group, choice[group]])
        if more > 0 and spent + more <= limit and benefit[group, option] > benefit[group, choice[group]]:
            choice[group], spent = option, spent + more
    return choice


def exact(cost: Ints, benefit: Ints, limit: int) -> Ints:
    """Option per group by dynamic programming over the cost: O(N · W · limit) time and O(N · limit) memory."""
    cheapest(cost, limit)
    best = np.zeros(limit + 1, np.int64)
    taken = np.zeros((len(cost), limit + 1), np.int16)
    for group in range(len(cost)):
        after = np.full(limit + 1, -(2**62), np.int64)
        for option in range(cost.shape[1]):
            c = int(cost[group, option])
            if c > limit:
                continue
            value = np.full(limit + 1, -(2**62), np.int64)
            value[c:] = best[: limit + 1 - c] + benefit[group, option]
            better = value > after
            after[better], taken[group, better] = value[better], option
        best = after
    choice, left = np.zeros(len(cost), np.int64), limit
    for group in range(len(cost) - 1, -1, -1):
        choice[group] = taken[group, left]
        left -= int(cost[group, choice[group]])
    return choice


def cheapest(cost: Ints, limit: int) -> Ints:
    """The cheapest option of each group. Raises ValueError if they exceed ``limit`` together."""
    least = int(cost.min(axis=1).sum())
    if least > limit:
        raise ValueError(f"the cheapest choice costs {least}, more than the limit of {limit}")
    return np.asarray(cost.argmin(axis=1), np.int64)


def _hull(cost: Ints, benefit: Ints, start: int, group: int) -> list[tuple[float, int, int]]:
    """Steps (benefit per cost, group, option) from ``start`` along the upper convex hull, of falling slope."""
    steps: list[tuple[float, int, int]] = []
    here = start
    while True:
        more = cost[group] - cost[group, here]
        slope = np.where(more > 0, (benefit[group] - benefit[group, here]) / np.maximum(more, 1), -np.inf)
        option = int(np.flatnonzero(slope == slope.max())[-1])
        if slope[option] <= 0:
            return steps
        steps.append((float(slope[option]), group, option))
        here = option
