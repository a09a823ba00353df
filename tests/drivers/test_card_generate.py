"""A model generates the same tokens through a card (a stand-in, with the RTL as its kernel) as through the emulated
drive."""

from __future__ import annotations

import pytest
from tiny_model import NEW_TOKENS, generate

from nearkv_drivers.cards.device import P2pOffWarning


@pytest.fixture(scope="module")
def emulated(model, tmp_path_factory):
    return generate(model, f"emulated:{tmp_path_factory.mktemp('emulated')}/drive?ddr=16MiB", 4)


def test_the_same_tokens_and_the_same_bytes(model, emulated, xrt_card, card_url):
    tokens, report = generate(model, card_url("ddr=16MiB"), 4)
    assert len(tokens) == NEW_TOKENS
    assert tokens == emulated[0]
    assert report["bytes_by_path"] == emulated[1]["bytes_by_path"]
    assert report["hit_rate"] == emulated[1]["hit_rate"]
    device = report["device"]
    assert (device["simulated"], device["p2p"], device["direct_io"]) == (False, True, True)
    assert device["name"].startswith("card 0000:65:00.1 xilinx_u2")
    assert device["kernel_runs"] > NEW_TOKENS
    assert device["key_beats"] > 0
    assert device["fpga_celsius"] == 58


def test_the_same_tokens_through_host_memory_with_two_units(model, emulated, xrt_card, card_url):
    xrt_card.faults.p2p = "dead"
    with pytest.warns(P2pOffWarning, match="THROUGH HOST MEMORY"):
        tokens, report = generate(model, card_url("ddr=16MiB", "cus=2", compute_units=2), 4)
    assert tokens == emulated[0]
    assert report["device"]["p2p"] is False
    assert sum(units := xrt_card.units_used) > NEW_TOKENS
    assert min(units) > 0
