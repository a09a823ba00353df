"""The checked-in golden vectors are what the golden model computes today, and say what README.md says."""

import json
from pathlib import Path

import numpy as np
import pytest

from nearkv.contract import encode_query, encode_segment, score, top_k
from nearkv.contract.encode import QMAX
from nearkv.contract.rotate import rotate

from vectors import encode_vectors, generate, load_encode, load_score, score_vectors
from vectors.loader import FOLDER


def test_the_files_are_what_the_generator_writes() -> None:
    assert not generate.differences(), "run tests/vectors/generate.py if the contract was meant to change"


def test_the_index_lists_every_file() -> None:
    listed = {entry["file"] for entry in json.loads((FOLDER / "index.json").read_text())}
    assert listed == {str(path.relative_to(FOLDER)) for path in [*score_vectors(), *encode_vectors()]}


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    raw = bytearray(score_vectors()[0].read_bytes())
    raw[4] = 9
    (tmp_path / "old.bin").write_bytes(raw)
    with pytest.raises(ValueError, match=r"generate\.py"):
        load_score(tmp_path / "old.bin")


@pytest.mark.parametrize("path", score_vectors(), ids=lambda path: path.stem)
def test_score_vectors_read_back(path: Path) -> None:
    want = load_score(path)
    got = score(want.query, want.segments, want.initial_total)
    np.testing.assert_array_equal(got.log_mass, want.log_mass)
    np.testing.assert_array_equal(got.total, want.total)
    np.testing.assert_array_equal(got.bad, want.bad)
    for chosen, expected in zip(top_k(got, want.k), (want.positions, want.priorities), strict=True):
        np.testing.assert_array_equal(chosen, expected)


@pytest.mark.parametrize("path", encode_vectors(), ids=lambda path: path.stem)
def test_encode_vectors_read_back_and_are_far_from_ties(path: Path) -> None:
    want = load_encode(path)
    segment = encode_segment(want.keys, want.bits, stream=want.stream, first_block=want.first_block)
    np.testing.assert_array_equal(segment.blocks, want.blocks)
    query = encode_query(want.queries, segment, want.attention_scale)
    np.testing.assert_array_equal(query.b[0], want.b)
    quotient = rotate(want.keys.astype(np.float64) - want.centre) / np.maximum(want.token_scale, 1e-300)[:, None]
    inside = np.abs(quotient) < QMAX[want.bits] + 0.5
    tie = np.abs(np.abs(quotient - np.trunc(quotient)) - 0.5)
    assert tie[inside].min() > 1e-9
