"""How the balance of host and drive finds its level: times are computed here, nothing is slept and nothing measured."""

import numpy as np
import pytest
import torch

from nearkv.cache.balance import REST_STEPS, SKEW_STEPS, Balance, Sides
from nearkv.cache.geometry import Geometry
from nearkv.cache.stats import CacheStats
from nearkv.tiers.beta import SKEW_GAIN, Limit

GB = 10**9
TOTAL = 100 * 10**6
LAYERS = (0, 3, 7)


class Machine:
    """Two sides whose scoring takes an overhead per start and bytes over a rate, with noise."""

    def __init__(self, host, drive, *, overhead=0.0, noise=0.05, seed=0):
        self.host, self.drive, self.overhead, self.host_overhead = host, drive, overhead, 0.0
        self._noise, self._rng = noise, np.random.default_rng(seed)

    def seconds(self, nbytes, rate):
        return (self.overhead + nbytes / rate) * self._rng.uniform(1 - self._noise, 1 + self._noise)

    def step(self, balance, dram_bytes=TOTAL, least_bytes=1000):
        """One decode step over all layers; returns the split that held, None where the drive scored alone."""
        for layer in LAYERS:
            balance.begin(layer)
            parts = balance.split(TOTAL, dram_bytes, least_bytes)
            if parts is None:
                continue
            balance.observe(
                Sides(
                    parts.host_bytes, self.host_overhead + self.seconds(parts.host_bytes, self.host),
                    parts.drive_bytes, self.seconds(parts.drive_bytes, self.drive),
                )
            )  # fmt: skip
        return parts


def balance(beta="adaptive", stats=None, *, skewed=False):
    return Balance(beta, stats or CacheStats(), Geometry(1, 1, 64, torch.float16, 4), skewed=skewed)


@pytest.mark.parametrize("host", [2 * GB, 20 * GB])
@pytest.mark.parametrize("drive", [0.5 * GB, 1.5 * GB, 6 * GB])
@pytest.mark.parametrize("overhead", [0.0, 1e-3])
def test_both_sides_finish_together_and_again_after_the_drive_halves(host, drive, overhead):
    machine, shared = Machine(host, drive, overhead=overhead), balance()
    for step in range(96):
        if step == 48:
            machine.drive /= 2
        machine.step(shared)
        if 24 <= step < 48 or step >= 48 + 32:
            assert shared.last_step.gap <= 0.1, step
    assert shared.limit is Limit.BALANCE
    assert shared.total.host_bytes + shared.total.drive_bytes == 95 * len(LAYERS) * TOTAL  # the last is not complete


def test_what_is_measured_shows_in_the_report():
    stats = CacheStats()
    machine, shared = Machine(4 * GB, 2 * GB, noise=0.0), balance(stats=stats)
    for _ in range(40):
        machine.step(shared)
        stats.hits += 30
        stats.misses += 10
        stats.seconds["attend"] = stats.seconds.get("attend", 0.0) + 30 * 8192 / GB
        stats.seconds["fetch"] = stats.seconds.get("fetch", 0.0) + 10 * 8192 / (0.25 * GB)
    report = shared.report()
    assert report["beta"] == pytest.approx(2, rel=0.05)
    assert report["rates"] == pytest.approx(
        {"host_score": 4 * GB, "drive_score": 2 * GB, "host_link": GB, "drive_link": 0.25 * GB}
    )
    assert report["last_step"]["gap"] == pytest.approx(0, abs=0.05)
    assert report["limit"].startswith("balance")


def test_the_dram_budget_binds_and_is_named():
    machine, shared = Machine(8 * GB, 1 * GB), balance()
    for _ in range(40):
        parts = machine.step(shared, dram_bytes=TOTAL // 5)
    assert parts.host_bytes == TOTAL // 5
    assert shared.report()["limit"].startswith("DRAM budget")
    assert shared.beta == pytest.approx(8, rel=0.2)  # what it would be otherwise is still known


def test_a_host_whose_overhead_is_longer_than_the_drives_whole_work_is_left_alone_and_asked_again():
    machine, shared = Machine(20 * GB, 20 * GB), balance()
    machine.host_overhead = 0.02  # four times what the drive takes for everything
    resting = [machine.step(shared, least_bytes=10**6) is None for _ in range(100)]
    assert not any(resting[:4])
    assert all(resting[-20:])
    assert shared.report()["limit"].startswith("overhead")
    machine.host_overhead = 0.0
    for _ in range(REST_STEPS + 40):
        parts = machine.step(shared, least_bytes=10**6)
    assert parts is not None
    assert shared.last_step.gap <= 0.1


def test_a_fixed_beta_stays():
    machine, shared = Machine(8 * GB, 1 * GB), balance(1.5)
    for _ in range(8):
        parts = machine.step(shared)
    assert parts.host_bytes / parts.drive_bytes == pytest.approx(1.5)
    assert (shared.changes, shared.rates) == (0, None)


def test_uneven_selections_move_the_split_by_the_articles_correction():
    machine, shared = Machine(4 * GB, 2 * GB, noise=0.0), balance(skewed=True)
    for _ in range(2 * SKEW_STEPS):
        machine.step(shared)
        shared.selected(0, 0, np.array([0, 1]), 2)  # even
        shared.selected(0, 1, np.array([3]), 4)  # one of four: a Gini coefficient of 3/4
    assert shared.beta == pytest.approx(2 * (1 + SKEW_GAIN * 3 / 8), rel=0.05)
