from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Iterator

import pytest
from hls.csim import library


@pytest.fixture(scope="session", params=[False, True], ids=["native", "ap_int"])
def kernel(request: pytest.FixtureRequest) -> ctypes.CDLL:
    """The kernel's shared library, with simulation integers and with AMD's."""
    missing = [tool for tool in ("make", "g++") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"C simulation needs {' and '.join(missing)}")
    return library(ap_int=request.param)

FRAMES = 200_000
"""Recursion that following a value back through every cycle of a netlist takes."""


@pytest.fixture
def deep_recursion() -> Iterator[None]:
    """Room for a proof, and for nothing that comes after it."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(FRAMES)
    yield
    sys.setrecursionlimit(limit)
