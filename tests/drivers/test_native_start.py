"""Kernel starts: asynchronous, many requests at once, refused in words where the contract has no such thing."""

import os
import subprocess
import sys
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest

from nearkv.contract import encode_query, encode_segment, score
from nearkv_drivers import native
from nearkv_drivers.native import KernelRequest, KernelRun
from nearkv_drivers.wire import ContractError, Query, Segment


def example(tokens: int = 100, group: int = 3) -> tuple[Query, Segment]:
    rng = np.random.default_rng(0)
    segment = encode_segment(rng.standard_normal((tokens, 64)).astype(np.float32), 4)
    return encode_query(rng.standard_normal((group, 64)), segment, 0.125), segment


def request_of(query: Query, segment: Segment, k: int = 0) -> KernelRequest:
    return KernelRequest([KernelRun(segment.blocks, query.c[0], query.r[0], query.b[0])], query.q, segment.bits, k)


def test_waiting_twice_returns_the_same_and_done_becomes_true() -> None:
    query, segment = example()
    handle = native.start([request_of(query, segment)])
    first, again = handle.wait(), handle.wait()
    assert handle.done()
    np.testing.assert_array_equal(first[0].log_mass, again[0].log_mass)


def test_a_start_that_nobody_waits_for_may_be_dropped() -> None:
    query, segment = example(3200)
    for _ in range(50):
        native.start([request_of(query, segment)] * 8)


def test_the_arrays_of_a_start_live_until_it_is_done() -> None:
    query, segment = example(3200)
    want = score(query, segment)
    handles = [native.start([request_of(query, replace(segment, blocks=segment.blocks.copy()))]) for _ in range(50)]
    for handle in handles:
        np.testing.assert_array_equal(handle.wait()[0].log_mass, want.log_mass)


def test_starts_from_several_threads() -> None:
    query, segment = example(640)
    want = score(query, segment).log_mass
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(100):
            [result] = native.start([request_of(query, segment)]).wait()
            if not np.array_equal(result.log_mass, want):
                wrong.append(index)

    threads = [Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_child_scores_too() -> None:
    query, segment = example(320)
    want = native.score(query, [segment] * 1).log_mass
    child = os.fork()
    if child == 0:
        handles = [native.start([request_of(query, segment)] * 4) for _ in range(4)]
        good = all(np.array_equal(result.log_mass, want) for handle in handles for result in handle.wait())
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_start_of_nothing_and_a_request_without_runs() -> None:
    query, _ = example()
    assert native.start([]).wait() == []
    t0 = np.array([5, -6, 7], np.int32)
    mass, best = native.start([KernelRequest([], query.q, 4, 0, t0), KernelRequest([], query.q, 4, 3, t0)]).wait()
    assert mass.log_mass is not None
    assert mass.log_mass.shape == (3, 0)
    np.testing.assert_array_equal(mass.total, t0)
    np.testing.assert_array_equal(best.total, t0)
    assert len(best.positions) == 0


def test_what_the_contract_does_not_have_is_refused_by_name() -> None:
    query, segment = example()
    good = request_of(query, segment)
    run = good.runs[0]
    wrong = {
        "1..16 heads": replace(good, q=np.zeros((17, 64), np.int8)),
        "rows of 48 values": replace(good, q=np.zeros((3, 48), np.int8)),
        "4 or 8 bits per value, not 5": replace(good, bits=5),
        "1..2048, not 2049": replace(good, k=2049),
        "not -1": replace(good, k=-1),
        "score blocks of 1088 bytes": replace(good, bits=8),
        "c has 2 values for 3 heads": replace(good, runs=[replace(run, c=run.c[:2])]),
        "r has 2 values for 3 heads": replace(good, runs=[replace(run, r=run.r[:2])]),
        "b has 2 values for 3 heads": replace(good, runs=[replace(run, b=run.b[:2])]),
        "right shift of 64": replace(good, runs=[replace(run, r=np.full(3, 64, np.uint8))]),
        "initial total has 1 values for 3 heads": replace(good, initial_total=np.zeros(1, np.int32)),
    }
    for message, request in wrong.items():
        with pytest.raises(ContractError, match=message):
            native.start([good, request])
    with pytest.raises(ContractError, match=r"k must lie in 1\.\.2048, not 0"):
        native.top_k(score(query, segment), 0)


def test_several_threads_wait_for_one_start() -> None:
    query, segment = example(3200)
    want = score(query, segment).log_mass
    for _ in range(20):
        handle = native.start([request_of(query, segment)])
        got: list[bool] = []
        threads = [
            Thread(target=lambda h=handle, out=got: out.append(np.array_equal(h.wait()[0].log_mass, want)))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == [True] * 3


def test_a_missing_extension_is_named_with_its_remedy() -> None:
    hidden = "import sys; sys.modules['nearkv_drivers._kernel'] = None; import nearkv_drivers.native"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "the native kernel of nearkv is missing or does not load" in done.stderr
    assert "make build" in done.stderr
