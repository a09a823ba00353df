"""The native kernel behind the kernel seam: descriptor arrays in, results out, refused where they lead nowhere."""

from dataclasses import replace

import numpy as np
import pytest
from golden_kernel import run_golden
from streams import Stream

from nearkv_drivers.device import Mode, Run, ScoreRequest
from nearkv_drivers.kernel import Command
from nearkv_drivers.native_kernel import NativeKernel
from nearkv_drivers.runs import RunTable, run_table
from nearkv_drivers.wire import ContractError


def command_and_memory(mode: Mode = Mode.TOPK) -> tuple[Command, np.ndarray]:
    stream = Stream(np.random.default_rng(5), 3, 40)
    memory = np.concatenate([segment.blocks.reshape(-1) for segment in stream.segments])
    size = stream.segments[0].blocks.size
    q = stream.query
    command = Command(
        np.array([2 * size, 0, size], np.uint64), np.array([40, 17, 40], np.uint32),
        q.c[[2, 0, 1]], q.r[[2, 0, 1]], q.b[[2, 0, 1]], q.q, np.array([5, -7, 900], np.int32), stream.bits, mode, 9,
    )  # fmt: skip
    return command, memory


@pytest.mark.parametrize("mode", list(Mode))
def test_descriptors_are_scored_as_the_golden_model_does(mode):
    command, memory = command_and_memory(mode)
    first, second = NativeKernel(memory).start([command, command]).wait()
    expected = run_golden(memory, 0, command)
    for result in (first, second):
        for name in ("total", "bad", "positions", "priorities", "log_mass"):
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))


def test_descriptors_that_lead_nowhere_are_refused():
    command, memory = command_and_memory()
    kernel = NativeKernel(memory)
    for message, wrong in {
        "leave the memory": replace(command, addresses=command.addresses + np.uint64(1 << 40)),
        "40 score blocks at address": replace(command, addresses=command.addresses + np.uint64(1)),
        "2 entries for a command of 3 runs": replace(command, blocks=command.blocks[:2]),
        "c has 2 values for 3 heads": replace(command, c=np.ascontiguousarray(command.c[:, :2])),
        "right shift of 64": replace(command, r=np.full_like(command.r, 64)),
    }.items():
        with pytest.raises(ContractError, match=message):
            kernel.start([wrong])


def test_a_run_table_is_the_sequence_of_its_runs():
    stream = Stream(np.random.default_rng(6), 3, 2)
    stream.offsets = [0, 4096, 8192]
    request: ScoreRequest = stream.request()
    table = run_table(request.runs, 3)
    assert run_table(table, 3) is table
    assert isinstance(table[1:], RunTable)
    for runs in (list(table), [*table[:1], *table[1:]]):
        for got, want in zip(runs, request.runs, strict=True):
            assert isinstance(got, Run)
            assert (got.offset, got.blocks) == (want.offset, want.blocks)
            for name in "crb":
                np.testing.assert_array_equal(getattr(got, name), getattr(want, name))
