"""Requests that the interface refuses: the status, the request it names, and what still completes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
from hls.csim import start
from hls.memory_image import REGISTERS, STATUS, Image, completion, pack, unpack
from hls.random_jobs import answer, random_job

from nearkv_drivers.device import Mode
from nearkv_sim.stimulus import compare

Fault = Callable[[Image, int], None]


def _field(name: str, value: int) -> Fault:
    def apply(image: Image, job: int) -> None:
        image.requests[job][name] = value

    return apply


def _descriptor(name: str, value: int) -> Fault:
    def apply(image: Image, job: int) -> None:
        image.descriptors(job)[-1][name] = value

    return apply


FAULTS: list[tuple[str, Fault]] = [
    ("BITS", _field("bits", 5)),
    ("BITS", _field("bits", 0)),
    ("WIDTH", _field("width32", 0)),
    ("WIDTH", _field("width32", 3)),
    ("WIDTH", _field("width32", 16)),
    ("GROUP", _field("group", 0)),
    ("GROUP", _field("group", 17)),
    ("MODE", _field("mode", 2)),
    ("TOP_K", _field("k", 0)),
    ("TOP_K", _field("k", 2049)),
    ("BLOCKS", _field("blocks", 0)),
    ("BLOCKS", _field("blocks", REGISTERS["limits"]["store_rows"] + 1)),
    ("RUNS", _field("runs", 0)),
    ("RUNS", _field("blocks", 7)),
    ("RUNS", _descriptor("blocks", 0)),
    ("ADDRESS", _field("query_offset", 8)),
    ("ADDRESS", _field("descriptor_offset", 96)),
    ("ADDRESS", _field("result_offset", 0)),
    ("ADDRESS", _field("result_offset", 32)),
    ("ADDRESS", _descriptor("address", 65)),
]


@pytest.mark.parametrize(("status", "fault"), FAULTS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(FAULTS)])
def test_fault_stops_the_list(kernel: ctypes.CDLL, status: str, fault: Fault) -> None:
    random = np.random.default_rng(5)
    jobs = [random_job(random, largest=5) for _ in range(3)]
    jobs[1].mode, jobs[1].k = Mode.TOPK, 4
    image = pack(jobs)
    fault(image, 1)
    record = start(kernel, image)
    assert (record["status"], record["failed"], record["completed"]) == (STATUS[status], 1, 1)
    compare(answer(jobs[0]), unpack(image, 0))
    assert (image.results[image.result_offsets[2] :] == 0xEE).all()


def test_two_passes_halve_the_limit(kernel: ctypes.CDLL) -> None:
    """The store holds eight heads in a row, so more than eight heads take two rows per block."""
    random = np.random.default_rng(6)
    job = next(job for job in iter(lambda: random_job(random, largest=3), None) if job.query.group > 8)
    image = pack([job])
    image.requests["blocks"] = REGISTERS["limits"]["store_rows"] // 2 + 1
    assert start(kernel, image)["status"] == STATUS["BLOCKS"]


def test_completion_record_is_whole(kernel: ctypes.CDLL) -> None:
    random = np.random.default_rng(7)
    image = pack([random_job(random, largest=3)])
    start(kernel, image)
    record = completion(image)
    assert record["version"] == REGISTERS["interface_version"]
    assert not image.results[16:64].any()


def test_no_requests(kernel: ctypes.CDLL) -> None:
    image = pack([])
    record = start(kernel, image)
    assert (record["status"], record["failed"], record["completed"]) == (STATUS["OK"], 0, 0)
    assert image.results.size == 64
