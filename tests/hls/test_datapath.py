"""The HLS datapath's functions one by one against the contract's formulas."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hls.csim import library
from hypothesis import given
from hypothesis import strategies as st

from nearkv.contract.crc import crc32c
from nearkv.contract.kernel import fold_total, log_of
from nearkv_drivers.wire import EMPTY, LOG_MASS_MAX

I32 = st.integers(EMPTY, LOG_MASS_MAX)
EDGE = st.one_of(I32, st.sampled_from([EMPTY, EMPTY + 1, -256, -1, 0, 1, LOG_MASS_MAX]), st.integers(-3000, 3000))


@pytest.fixture(scope="module", params=[False, True], ids=["native", "ap_int"])
def datapath(request: pytest.FixtureRequest) -> ctypes.CDLL:
    lib = library(ap_int=request.param)
    for name in ("token_mass", "share", "crc32c_beat", "crc32c_header"):
        getattr(lib, f"nearkv_{name}").restype = ctypes.c_uint32
    lib.nearkv_total_of.argtypes = [ctypes.c_int32, ctypes.c_uint64]
    lib.nearkv_crc32c_beat.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    lib.nearkv_crc32c_header.argtypes = [ctypes.c_char_p]
    return lib


@given(
    dot=st.integers(-(1 << 22), 1 << 22), m=st.integers(0, 255), c=st.integers(0, 65535), r=st.integers(0, 63), b=EDGE
)
def test_scale(datapath: ctypes.CDLL, dot: int, m: int, c: int, r: int, b: int) -> None:
    expected = min(max(((dot * m * c) >> r) + b, EMPTY), LOG_MASS_MAX)
    assert datapath.nearkv_scale(dot, m, c, r, b) == expected


LANES = st.binary(min_size=16, max_size=16)


@given(q_even=LANES, q_odd=LANES, k_even=LANES, k_odd=LANES)
def test_dot16(datapath: ctypes.CDLL, q_even: bytes, q_odd: bytes, k_even: bytes, k_odd: bytes) -> None:
    k_odd = bytes((value - 8) % 256 for value in (byte % 16 for byte in k_odd))  # a nibble with its sign
    qe, qo, ke, ko = (np.frombuffer(v, np.int8).astype(int) for v in (q_even, q_odd, k_even, k_odd))
    assert datapath.nearkv_dot16(q_even, q_odd, k_even, k_odd) == qe @ ke + qo @ ko


@given(x=EDGE, above=st.one_of(st.integers(0, 40), st.integers(0, 1 << 24)))
def test_token_mass(datapath: ctypes.CDLL, x: int, above: int) -> None:
    peak = min((x >> 8) + above, LOG_MASS_MAX >> 8)
    expected = ((256 + (x & 255)) << 12) >> min(peak - (x >> 8), 31)
    assert datapath.nearkv_token_mass(x, peak) == expected


@given(exponent=st.integers(EMPTY >> 8, LOG_MASS_MAX >> 8), total=st.integers(1 << 20, (1 << 26) - 1))
def test_log_of_block(datapath: ctypes.CDLL, exponent: int, total: int) -> None:
    assert datapath.nearkv_log_of_block(exponent, total) == int(log_of(np.array(exponent), np.array(total)))


@given(values=st.lists(EDGE, max_size=12))
def test_fold(datapath: ctypes.CDLL, values: list[int]) -> None:
    exponent, total = ctypes.c_int32(0), ctypes.c_uint64(0)
    for value in values:
        datapath.nearkv_fold(ctypes.byref(exponent), ctypes.byref(total), value)
    assert datapath.nearkv_total_of(exponent.value, total.value) == fold_total(EMPTY, values)


@given(log_mass=EDGE, total=EDGE.filter(lambda t: t != EMPTY))
def test_share(datapath: ctypes.CDLL, log_mass: int, total: int) -> None:
    y = min(log_mass - total, 0)
    share = ((256 + (y & 255)) << 24) >> min(8 - (y >> 8), 40)
    assert datapath.nearkv_share(log_mass, total) == (0 if log_mass == EMPTY else share)


@given(data=st.integers(0, 4).flatmap(lambda beats: st.binary(min_size=64 * beats + 64, max_size=64 * beats + 64)))
def test_crc32c(datapath: ctypes.CDLL, data: bytes) -> None:
    state = datapath.nearkv_crc32c_header(data[:64])
    for at in range(64, len(data), 64):
        state = datapath.nearkv_crc32c_beat(state, data[at : at + 64])
    assert state ^ 0xFFFFFFFF == crc32c(data[:60] + data[64:])
