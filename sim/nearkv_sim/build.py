"""Verilator builds that need no cocotb."""

from __future__ import annotations
from pathlib import Path
def build_harness() -> Path:
    return Path('/work/wt/rtl/build/sim/harness/run_image')
