"""KVDrive's 2-D window scaling: every (layer, head) gets the window that its own reuse is worth.

Offline: a profile (``trace/profile.py``) replays recorded texts and measures, for each (layer, KV head, window), the
blocks that the window's selections occupy and the hits they give. :func:`plan` picks one window for each under a
total pool size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nearkv.tiers import knapsack

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
WINDOWS = (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 12, 16, 24, 32, 48)
"""Windows (steps) that are profiled. One of 1.25 is a step long three times out of four, else two: small pools are
divided by fractions of a step."""


@dataclass(frozen=True)
class WindowProfile:
    """``blocks`` and ``hits`` int64 [L, S, W]: what each window of ``windows`` costs and gives."""

    model: str
    windows: tuple[float, ...]
    blocks: Ints
    hits: Ints


@dataclass(frozen=True)
class WindowPlan:
    """Window (steps, float64) and pool share (blocks, int64) of every (layer, KV head), [L, S], for one model."""

    model: str
    windows: Floats
    blocks: Ints

    @property
    def total(self) -> int:
        """Pool blocks of all streams together."""
        return int(self.blocks.sum())

    def save(self, path: str | Path) -> None:
        """Write as JSON."""
        fields = {"model": self.model, "windows": self.windows.tolist(), "blocks": self.blocks.tolist()}
        Path(path).write_text(json.dumps(fields) + "\n")

    @classmethod
    def load(cls, path: str | Path, model: str | None = None) -> WindowPlan:
        """Read a plan. Raises ValueError if it is missing, damaged, or made for another model than ``model``."""
        try:
            fields: dict[str, Any] = json.loads(Path(path).read_text())
            plan = cls(fields["model"], np.array(fields["windows"], np.float64), np.array(fields["blocks"], np.int64))
        except FileNotFoundError as error:
            raise ValueError(f"{path}: no such window plan; make one with `nearkv trace windows`") from error
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: not a window plan ({error})") from error
        if model is not None and plan.model != model:
            raise ValueError(f"{path}: made for {plan.model}, not for {model}; profile a trace of {model}")
        if plan.blocks.shape != plan.windows.shape or plan.blocks.ndim != 2 or (plan.blocks < 0).any():
            raise ValueError(f"{path}: windows and blocks must both be [layers, KV heads]")
        return plan


def apportion(plan: WindowPlan, slots: int) -> Ints:
    """``slots`` pool slots divided as ``plan`` divides its blocks: int64 [L, S], together exactly ``slots``.

    By highest averages (Sainte-Laguë), so that no stream's part falls when ``slots`` grows: a pool that follows alpha
    then holds its sum at every moment, whichever layers have followed already.
    """
    return _apportion(plan.blocks.tobytes(), plan.blocks.shape, slots).copy()


@lru_cache(8)
def _apportion(blocks: bytes, shape: tuple[int, ...], slots: int) -> Ints:
    """Kept, as all layers of a step ask for the same."""
    weight = np.maximum(np.frombuffer(blocks, np.int64).astype(np.float64), 1e-9)
    most = min(slots, 2 * math.ceil(slots * weight.max() / weight.sum()) + 2)
    averages = weight / (2 * np.arange(most)[:, None] + 1)
    best = np.argsort(-averages, axis=None, kind="stable")[:slots]
    return np.bincount(best % len(weight), minlength=len(weight)).astype(np.int64).reshape(shape)


def together(profiles: Sequence[WindowProfile]) -> WindowProfile:
    """Profiles of several texts, with the same model and windows, as one: mean blocks (rounded up), all hits."""
    blocks, hits = (sum(getattr(one, name) for one in profiles) for name in ("blocks", "hits"))
    return WindowProfile(profiles[0].model, profiles[0].windows, -(-blocks // len(profiles)), hits)


def window_blocks(chosen: npt.NDArray[np.int32], window: float) -> Ints:
    """Mean number of distinct blocks in the last ``window`` selections, rounded up, [N]; ``chosen`` is [T, N, k]."""
    steps, rows = chosen.shape[:2]
    short = int(window)
    last = np.full((rows, int(chosen.max(initial=0)) + 2), -(2**30), np.int64)
    total, more = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for t in range(steps):
        np.put_along_axis(last, chosen[t] + 1, t, axis=1)
        total += (last[:, 1:] > t - short).sum(axis=1)
        more += (last[:, 1:] == t - short).sum(axis=1)
    return np.asarray(np.ceil((total + more * (window - short)) / steps), np.int64)


def plan(profile: WindowProfile, pool_blocks: int, *, exact: bool = True) -> WindowPlan:
    """The windows of most hits whose blocks fit ``pool_blocks`` together; ``exact`` or greedy.

    What no larger window can use is divided in proportion, so that a plan fills the pool. Raises ValueError if even
    the smallest windows do not fit.
    """
    shape = profile.blocks.shape
    cost, hits = profile.blocks.reshape(-1, shape[2]), profile.hits.reshape(-1, shape[2])
    choice = (knapsack.exact if exact else knapsack.greedy)(cost, hits, pool_blocks)
    rows = np.arange(len(choice))
    windows = np.array(profile.windows, np.float64)[choice]
    blocks = _filled(cost[rows, choice], pool_blocks)
    return WindowPlan(profile.model, windows.reshape(shape[:2]), blocks.reshape(shape[:2]))


def _filled(blocks: Ints, total: int) -> Ints:
    """``blocks`` [N] in proportion, with a sum of ``total``; the largest remainders are rounded up."""
    share = blocks * (total / blocks.sum())
    whole = np.maximum(np.floor(share).astype(np.int64), blocks)
    order = np.argsort(whole - share, kind="stable")
    whole[order[: max(total - int(whole.sum()), 0)]] += 1
    return np.asarray(whole, np.int64)


def uniform(profile: WindowProfile, pool_blocks: int) -> WindowPlan:
    """The largest window that fits when all streams have the same one: what 2-D scaling is compared with."""
    fits = profile.blocks.sum(axis=(0, 1)) <= pool_blocks
    if not fits.any():
        raise ValueError(f"even a window of {min(profile.windows)} needs more than {pool_blocks} blocks")
    index = int(np.flatnonzero(fits)[-1])
    windows = np.full(profile.blocks.shape[:2], profile.windows[index], np.float64)
    return WindowPlan(profile.model, windows, profile.blocks[:, :, index])


def checked_windows(windows: Sequence[float]) -> tuple[float, ...]:
    """Windows in ascending order; raises ValueError for none, or one below a step."""
    if not windows or min(windows) < 1:
        raise ValueError("windows must hold at least one step each")
    return tuple(sorted(set(windows)))
