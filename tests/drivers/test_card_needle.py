"""The demo's needle, found through a card: its stand-in takes the real driver's path down to the RTL's registers.

NEARKV_NEEDLE_TOKENS lengthens the text; 8000 is the demo's own.
"""

from __future__ import annotations

import os

import pytest
import torch

from nearkv import attach, demo
from nearkv.cache.config import TierConfig
from nearkv.cache.tiered import TieredCache
from nearkv.cli.demo import TEMPLATE_TOKENS, turn
from nearkv.loading import DEMO_MODEL, ModelError, load
from nearkv.report import path_counters, run_report
from nearkv.session import Session, stop_tokens

ANSWER_TOKENS, DEPTH = 24, 0.4


@pytest.fixture(scope="module")
def loaded():
    try:
        return load(DEMO_MODEL)
    except ModelError as error:
        pytest.skip(f"the demo's model is not on this machine: {error}")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_needle_is_found_with_the_tokens_of_the_emulated_drive(loaded, xrt_card, card_url, tmp_path):
    tokens = int(os.environ.get("NEARKV_NEEDLE_TOKENS", "2048"))
    before, after = turn(loaded)
    text = loaded.decode(loaded.encode(demo.text())[: tokens - TEMPLATE_TOKENS - ANSWER_TOKENS])
    prompt = before + loaded.encode(demo.with_needle(text, DEPTH), special=False) + after
    answers, reports = {}, {}
    for scheme, url in {"emulated": f"emulated:{tmp_path}/emulated?ddr=16MiB", "card": card_url("ddr=16MiB")}.items():
        attach(loaded.model)
        with TieredCache(loaded.model, url, TierConfig(budget=512, expected_tokens=tokens)) as cache:
            session = Session(loaded.model, cache)
            session.prefill(torch.tensor(prompt))
            start = path_counters(cache)
            answers[scheme] = session.greedy(ANSWER_TOKENS, stop_tokens(loaded.model))
            reports[scheme] = run_report(cache, session, start)
    assert demo.NUMBER in loaded.decode(answers["card"])
    assert answers["card"] == answers["emulated"]
    assert reports["card"]["bytes_by_path"] == reports["emulated"]["bytes_by_path"]
    assert reports["card"]["device"]["key_beats"] > 0
