"""Golden vectors on the native kernel and codec, on every instruction set of this processor."""

from pathlib import Path

import numpy as np
import pytest

from nearkv_drivers import native

from vectors import encode_vectors, load_encode, load_score, score_vectors


def by_stem(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("path", score_vectors(), ids=by_stem)
def test_score_and_top_k(path: Path, isa: str) -> None:
    want = load_score(path)
    got = native.score(want.query, want.segments, want.initial_total, isa=isa)
    np.testing.assert_array_equal(got.log_mass, want.log_mass)
    np.testing.assert_array_equal(got.total, want.total)
    np.testing.assert_array_equal(got.bad, want.bad)
    positions, priorities = native.top_k(got, want.k)
    np.testing.assert_array_equal(positions, want.positions)
    np.testing.assert_array_equal(priorities, want.priorities)


@pytest.mark.parametrize("isa", native.isas())
@pytest.mark.parametrize("path", encode_vectors(), ids=by_stem)
def test_encode(path: Path, isa: str) -> None:
    want = load_encode(path)
    got = native.encode_segment(want.keys, want.bits, stream=want.stream, first_block=want.first_block, isa=isa)
    np.testing.assert_array_equal(got.blocks, want.blocks)
    np.testing.assert_array_equal(got.centre, want.centre)
    assert got.scale == want.scale
    query = native.encode_query(want.queries, got, want.attention_scale)
    np.testing.assert_array_equal(query.q, want.q)
    np.testing.assert_array_equal(query.c, want.c[None])
    np.testing.assert_array_equal(query.r, want.r[None])
    np.testing.assert_array_equal(query.b, want.b[None])


def test_the_portable_path_is_always_there() -> None:
    assert native.isas()[-1] == "portable"


def test_an_unknown_instruction_set_is_named() -> None:
    with pytest.raises(ValueError, match=r"no instruction set 'mmx' .*portable"):
        native.crc32c(np.zeros(8, np.uint8), isa="mmx")
