"""The Verilated kernel behind the kernel seam: equal to the golden vectors and to the native kernel, to the byte."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from rtl_cases import random_commands, vector_command

from nearkv_drivers.device import DeviceError, Mode, ScoreResult
from nearkv_drivers.kernel_memory import BEAT, pack_commands, parse_result, result_beats
from nearkv_drivers.memory import aligned_buffer
from nearkv_drivers.native_kernel import NativeKernel, reduce_native
from nearkv_drivers.rtl_kernel import RtlKernel
from nearkv_sim.stimulus import compare

from vectors import load_score, score_vectors

DDR4 = {"latency": 60, "bytes_per_cycle": 64.0}
P2P = {"latency": 22_500, "bytes_per_cycle": 10.0}


@pytest.fixture
def make_kernel(rtl_library):
    kernels = []

    def make(memory, **timing) -> RtlKernel:
        kernels.append(RtlKernel(rtl_library, memory, reduce_native, **(timing or DDR4)))
        return kernels[-1]

    yield make
    for kernel in kernels:
        kernel.close()


def test_every_golden_vector_in_one_start_each_mode(make_kernel):
    vectors = [load_score(path) for path in score_vectors()]
    assert vectors
    memory = aligned_buffer(sum(vector.blocks.size for vector in vectors))
    bases = np.cumsum([0, *(vector.blocks.size for vector in vectors)])
    for vector, base in zip(vectors, bases, strict=False):
        memory[base : base + vector.blocks.size] = vector.blocks.reshape(-1)
    kernel = make_kernel(memory)
    for mode in Mode:
        commands = [vector_command(vector, mode, int(base)) for vector, base in zip(vectors, bases, strict=False)]
        for vector, result in zip(vectors, kernel.start(commands).wait(), strict=True):
            want = (
                ScoreResult(vector.total, vector.bad, vector.positions, vector.priorities)
                if mode is Mode.TOPK
                else ScoreResult(vector.total, vector.bad, log_mass=vector.log_mass)
            )
            compare(want, result, f"{vector.name} {mode.name}")


@pytest.mark.parametrize(("timing", "count"), [(DDR4, 24), (P2P, 3)], ids=["ddr4", "p2p"])
def test_random_commands_equal_the_native_kernel(make_kernel, rng, timing, count):
    memory = aligned_buffer(8 << 20)
    commands = random_commands(rng, memory, count)
    native, kernel = NativeKernel(memory), make_kernel(memory, **timing)
    want = native.start(commands).wait()
    for at in range(0, len(commands), 8):
        results = kernel.start(commands[at : at + 8]).wait()
        for i, result in enumerate(results, at):
            compare(want[i], result, f"command {i}")


def test_figures_count_every_beat_and_the_memory_bounds_the_rate(make_kernel, rng):
    memory = aligned_buffer(8 << 20)
    commands = random_commands(rng, memory, 8)
    kernels = [make_kernel(memory, latency=10, bytes_per_cycle=rate) for rate in (0.0, 16.0)]
    for kernel in kernels:
        kernel.start(commands).wait()
    fast, slow = (kernel.figures.last for kernel in kernels)
    from nearkv_drivers.wire import block_bytes

    beats = sum(int(c.blocks.sum()) * block_bytes(c.q.shape[1], c.bits) for c in commands) // BEAT
    assert fast.beats == slow.beats == beats
    assert fast.stalls >= 0
    assert beats <= fast.cycles < slow.cycles
    assert slow.cycles >= 4 * beats, "16 bytes a cycle cannot bring a 64-byte beat faster than every fourth cycle"
    assert slow.key_waits > fast.key_waits


def test_a_command_without_blocks_returns_its_initial_total(make_kernel, rng):
    memory = aligned_buffer(1 << 20)
    command = random_commands(rng, memory, 1)[0]
    from dataclasses import replace

    empty = replace(
        command, mode=Mode.MASS, addresses=command.addresses[:0], blocks=command.blocks[:0], c=command.c[:0],
        r=command.r[:0], b=command.b[:0],
    )  # fmt: skip
    kernel = make_kernel(memory)
    results = kernel.start([empty, command, empty]).wait()
    want = NativeKernel(memory).start([empty, command, empty]).wait()
    for got, expected in zip(results, want, strict=True):
        compare(expected, got)
    assert kernel.start([empty]).wait()[0].log_mass.shape == (command.q.shape[0], 0)


def test_keys_outside_the_memory_are_a_named_error_and_the_next_start_runs(make_kernel, rng):
    from dataclasses import replace

    memory = aligned_buffer(1 << 20)
    command = random_commands(rng, memory, 1)[0]
    kernel = make_kernel(memory)
    outside = replace(command, addresses=command.addresses + np.uint64(1 << 30))
    with pytest.raises(DeviceError, match=r"request 1 of 2 with KEY_READ"):
        kernel.start([command, outside]).wait()
    with pytest.raises(DeviceError, match="request 0 of 1 with TOP_K"):
        kernel.start([replace(command, mode=Mode.TOPK, k=4000)]).wait()
    compare(NativeKernel(memory).start([command]).wait()[0], kernel.start([command]).wait()[0])


def test_a_result_that_contradicts_itself_is_not_returned(rng):
    memory = aligned_buffer(1 << 20)
    command = random_commands(rng, memory, 1)[0]
    image = pack_commands([command])
    assert image.result_bytes == BEAT * (1 + result_beats(command))
    data = np.zeros(BEAT * result_beats(command), np.uint8)
    data.view("<u4")[:4] = 0, 1, int(command.blocks.sum()), command.q.shape[0]
    with pytest.raises(ValueError, match="bitmap has 0 bad blocks, the header says 1"):
        parse_result(command.mode, data)


def test_the_library_exports_only_what_it_promises(rtl_library):
    library = ctypes.CDLL(str(rtl_library))
    for name in ("nearkv_rtl_open", "nearkv_rtl_start", "nearkv_rtl_close"):
        assert getattr(library, name)
