"""What a policy gets to see: every step's selection and ranking, and what the prompt's last queries select."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from nearkv.cache.selection import MOST_OF_ONE_HEAD
from nearkv.cache.tail import StreamWindows
from nearkv.policy import Policy, uses_ranking
from nearkv_drivers.device import ScoreResult
from nearkv_drivers.wire import PRIORITY_UNIT


class DecodeStep(NamedTuple):
    """One decode step of a layer: ``selected`` blocks int32 [S, k] with ``priority`` uint32 [S, k], -1 padded.

    The ``newest`` blocks int32 [S, n], which no device scores, are read as well. ``results`` rank more blocks.
    """

    results: Sequence[ScoreResult | None]
    selected: npt.NDArray[np.int32]
    priority: npt.NDArray[np.uint32]
    newest: npt.NDArray[np.int32]


class PromptEnd(NamedTuple):
    """A layer's last queries of a prompt, which would have selected ``wanted`` blocks each, ``sinks`` included.

    ``shares`` float32 [S, P, blocks] are the means over ``group`` query heads of the shares of the attention mass;
    ``newest`` are the windows of newest tokens behind those blocks.
    """

    shares: npt.NDArray[np.float32]
    newest: StreamWindows
    group: int
    wanted: int
    sinks: int


class Watcher(Protocol):
    """Gets to see what the policy of a cache sees; see :meth:`nearkv.TieredCache.watch`. It must not change it."""

    def step(self, layer: int, step: DecodeStep) -> None:
        """A decode step of ``layer``."""

    def prompt(self, layer: int, end: PromptEnd) -> None:
        """The end of a prompt, once ``layer`` has scored it."""


def show_step(policy: Policy, layer: int, step: DecodeStep) -> None:
    """Let ``policy`` learn a decode step of ``layer``; the newest blocks count as selected, with priority 0."""
    if uses_ranking(policy):
        policy.rank(layer, *ranking(step.results))
    always = np.zeros(step.newest.shape, np.uint32)
    selected = np.concatenate([step.newest, step.selected], axis=1)
    policy.observe(layer, selected, np.concatenate([always, step.priority], axis=1))


def show_prompt(policy: Policy, layer: int, end: PromptEnd) -> None:
    """Let ``policy`` learn the prompt's last queries of ``layer`` as if they had been decode steps."""
    newest, wanted = end.newest.blocks, end.wanted
    always = np.zeros(newest.shape, np.uint32)
    for blocks, priority in prompt_rankings(end):
        if uses_ranking(policy):
            policy.rank(layer, blocks, priority)
        policy.observe(
            layer,
            np.concatenate([newest, blocks[:, :wanted]], axis=1),
            np.concatenate([always, priority[:, :wanted]], axis=1),
        )


def prompt_rankings(end: PromptEnd) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]]:
    """What a scorer would have ranked for each of the prompt's last queries, in order: blocks and priorities [S, n].

    Sinks come first; the first ``end.wanted`` blocks are what would have been selected. -1 padded.
    """
    shares, newest = end.shares, end.newest
    index = np.arange(shares.shape[2])
    key = np.where(index < newest.first_block[:, None, None], shares, np.float32(-1))
    key[:, :, : end.sinks] += 2  # always selected, where they exist
    order = np.argsort(-key, axis=2, kind="stable")[:, :, : 2 * end.wanted].astype(np.int32)
    units = np.rint(np.take_along_axis(shares, order, axis=2).astype(np.float64) * end.group * PRIORITY_UNIT)
    priority = np.minimum(units, 2**32 - 1).astype(np.uint32)
    ranked = np.where(order < newest.first_block[:, None, None], order, np.int32(-1))
    for query in range(shares.shape[1]):
        yield ranked[:, query], priority[:, query]


def prompt_selections(
    shares: npt.NDArray[np.float32], candidates: npt.NDArray[np.int64], *, wanted: int, sinks: int, kv_heads: int
) -> npt.NDArray[np.int32]:
    """What each of the prompt's last queries would have selected, sinks apart: int32 [P, S, n], -1 padded.

    ``shares`` is [S, P, blocks]; of every stream, the first ``candidates`` [S] blocks are there to select. As in a
    decode step, the ``kv_heads`` of a sequence share their budget of ``wanted`` blocks each.
    """
    streams, queries, blocks = shares.shape
    index = np.arange(blocks)
    key = np.where((index >= sinks) & (index < candidates[:, None, None]), shares, np.float32(-1))
    order = np.argsort(-key, axis=2, kind="stable")[:, :, : MOST_OF_ONE_HEAD * wanted].astype(np.int32)
    best = np.take_along_axis(key, order, axis=2)
    by_sequence = best.reshape(-1, kv_heads, queries, best.shape[2]).swapaxes(1, 2)
    together = by_sequence.reshape(streams // kv_heads, queries, -1)
    room = min(max((wanted - sinks) * kv_heads, 1), together.shape[2])
    least = np.sort(together, axis=2)[:, :, -room].repeat(kv_heads, axis=0)
    return np.where((best >= least[:, :, None]) & (best >= 0), order, np.int32(-1)).swapaxes(0, 1)


def ranking(results: Sequence[ScoreResult | None]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
    """What the device ranked, int32 [S, m] -1 padded and uint32 [S, m]: more than was selected."""
    most = max((len(result.positions) for result in results if result is not None), default=0)
    ranked = np.full((len(results), most), -1, np.int32)
    priority = np.zeros(ranked.shape, np.uint32)
    for row, result in enumerate(results):
        if result is not None:
            ranked[row, : len(result.positions)] = result.positions
            priority[row, : len(result.positions)] = result.priorities
    return ranked, priority
