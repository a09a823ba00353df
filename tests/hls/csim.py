"""The HLS kernel in C simulation: built by ``hls/Makefile`` on demand, called through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hls.memory_image import STATUS, Image, Job, completion, pack, unpack

from nearkv_drivers.device import ScoreResult

ROOT = Path(__file__).parents[2]


class BuildError(RuntimeError):
    """C simulation could not be built; the message is the compiler's or the header download's."""


@lru_cache
def library(ap_int: bool = False) -> ctypes.CDLL:
    """The kernel and its datapath functions; ``ap_int`` puts AMD's integers into the datapath too."""
    option = ["AP_INT=1"] if ap_int else []
    command = ["make", "-C", str(ROOT / "hls"), "lib", f"PYTHON={sys.executable}", *option]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(done.stderr or done.stdout)
    folder = "hls-ap_int" if ap_int else "hls"
    loaded = ctypes.CDLL(str(ROOT / "build" / folder / "libnearkv_hls.so"))
    pointer = np.ctypeslib.ndpointer(np.uint8, flags="C_CONTIGUOUS")
    loaded.nearkv_kernel.argtypes = [ctypes.c_uint32, pointer, pointer, pointer]
    loaded.nearkv_kernel.restype = None
    return loaded


def start(kernel: ctypes.CDLL, image: Image) -> npt.NDArray[np.void]:
    """Run the kernel once over ``image`` and return the completion record."""
    kernel.nearkv_kernel(len(image.jobs), image.commands, image.keys, image.results)
    return completion(image)


def run(kernel: ctypes.CDLL, jobs: Sequence[Job]) -> list[ScoreResult]:
    """Run ``jobs`` as one start that must succeed, one result per job."""
    image = pack(jobs)
    record = start(kernel, image)
    assert record["status"] == STATUS["OK"], f"status {record['status']} at request {record['failed']}"
    assert record["failed"] == record["completed"] == len(jobs)
    return [unpack(image, i) for i in range(len(jobs))]
