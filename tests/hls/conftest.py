from __future__ import annotations

import ctypes
import shutil

import pytest
from hls.csim import library


@pytest.fixture(scope="session", params=[False, True], ids=["native", "ap_int"])
def kernel(request: pytest.FixtureRequest) -> ctypes.CDLL:
    """The kernel's shared library, with simulation integers and with AMD's."""
    missing = [tool for tool in ("make", "g++") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"C simulation needs {' and '.join(missing)}")
    return library(ap_int=request.param)
