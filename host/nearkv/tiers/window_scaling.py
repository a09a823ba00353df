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

from nearkv.files import write_json
from nearkv.tiers import knapsack
from nearkv.tiers.rounding import largest_remainders

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
WINDOWS = (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 12, 16, 24, 32, 48)
"""Windows (steps) that are profiled. One of 1.25 is a step long three times out of four, else two: small pools are
divided by fractions of a step."""

OWN = 1 / 3
"""How far a stream's window lies from the one that all can have to the one that served the profiled texts best. What
the knapsack finds on one text is to a large part a matter of that text; measured on SmolLM2, six texts, each judged
with the profiles of others."""


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
        write_json(path, fields, indent=None)

    @classmethod
    def load(cls, path: str | Path, model: str | None = None) -> WindowPlan:
        """Read a plan. Raises ValueError if it is missing, damaged, or made for another model than ``model``."""
        try:
            fields: dict[str, Any] = json.loads(Path(path).read_text())
            name, windows = fields["model"], np.array(fields["windows"], np.float64)
            given, blocks = np.array(fields["blocks"], np.float64), np.array(fields["blocks"], np.int64)
            if not isinstance(name, str):
                raise TypeError(f"model is {name!r}")
        except FileNotFoundError as error:
            raise ValueError(f"{path}: no such window plan; make one with `nearkv trace windows`") from error
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path}: not a window plan ({error})") from error
        if model is not None and name != model:
            raise ValueError(f"{path}: made for {name}, not for {model}; profile a trace of {model}")
        if blocks.shape != windows.shape or blocks.ndim != 2:
            raise ValueError(f"{path}: windows and blocks must both be [layers, KV heads]")
        if (blocks != given).any() or (blocks < 0).any() or not blocks.any():
            raise ValueError(f"{path}: blocks must be whole numbers, none below 0 and not all 0")
        if not (windows >= 0).all():
            raise ValueError(f"{path}: windows must be steps, at least 0")
        return cls(name, windows, blocks)


def apportion(plan: WindowPlan, slots: int) -> Ints:
    """``slots`` pool slots divided as ``plan`` divides its blocks: int64 [L, S], together exactly ``slots``.

    By highest averages (Sainte-Laguë), so that no stream's part falls when ``slots`` grows: a pool that follows alpha
    then holds its sum at every moment, whichever layers have followed already.
    """
    return _apportion(plan.blocks.tobytes(), plan.blocks.shape, slots).copy()


@lru_cache(128)
def _apportion(blocks: bytes, shape: tuple[int, ...], slots: int) -> Ints:
    """Kept, as all layers of a step ask for the same, once per sequence."""
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
    """A window and a share of ``pool_blocks`` for every stream, together all of them.

    The knapsack, ``exact`` or greedy, finds the windows of most hits that fit; a stream's window lies ``OWN`` of the
    way there from the one that all can have. Raises ValueError if even the smallest windows do not fit.
    """
    shape = profile.blocks.shape
    cost, hits = profile.blocks.reshape(-1, shape[2]), profile.hits.reshape(-1, shape[2])
    choice = (knapsack.exact if exact else knapsack.greedy)(cost, hits, pool_blocks)
    own = np.array(profile.windows, np.float64)[choice]
    common, blocks = _common(profile, pool_blocks)
    best = _filled(cost[np.arange(len(cost)), choice], pool_blocks)
    windows, share = OWN * own + (1 - OWN) * common, OWN * best + (1 - OWN) * blocks
    whole = largest_remainders(share, pool_blocks)
    return WindowPlan(profile.model, windows.reshape(shape[:2]), whole.reshape(shape[:2]))


def _common(profile: WindowProfile, total: int) -> tuple[float, Floats]:
    """The window that all streams can have in ``total`` blocks, and what it takes of each, float64 [N]."""
    cost = profile.blocks.reshape(-1, len(profile.windows)).astype(np.float64)
    sums, windows = cost.sum(axis=0), np.array(profile.windows, np.float64)
    above = int(np.searchsorted(sums, total, side="right"))
    if above in (0, len(sums)):  # below the smallest or beyond the largest: in proportion
        edge = min(above, len(sums) - 1)
        return float(windows[edge]), _filled(cost[:, edge], total)
    part = (total - sums[above - 1]) / (sums[above] - sums[above - 1])
    low, high = (table[..., above - 1] for table in (cost, windows)), (table[..., above] for table in (cost, windows))
    blocks, window = ((1 - part) * a + part * b for a, b in zip(low, high, strict=True))
    return float(window), blocks


def _filled(blocks: Floats | Ints, total: int) -> Floats:
    """``blocks`` [N] in proportion, with a sum of ``total``."""
    return np.asarray(blocks * (total / blocks.sum()), np.float64)


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
