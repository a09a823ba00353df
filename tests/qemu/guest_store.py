"""Runs in the guest: nearkv's emulated device with its drive file on an NVMe drive; prints what it saw as JSON.

Arguments: the drive file's path, the request (an .npz with the blocks, the query and its scales).
"""

from __future__ import annotations

import json
import sys

import numpy as np

import nearkv_drivers
from nearkv_drivers import Mode, Run, ScoreRequest, address_of, aligned_buffer


def main(path: str, request: str) -> None:
    """Write the blocks (not through device DRAM, so that scoring reads the drive), read them back, score them."""
    given = np.load(request)
    blocks = given["blocks"]
    data = aligned_buffer(-(-blocks.size // 4096) * 4096)
    data[: blocks.size] = blocks.reshape(-1)
    back = aligned_buffer(data.size)
    with nearkv_drivers.open(f"emulated:{path}?ddr=64MiB") as device:
        device.write(0, data).wait()
        device.flush()
        device.read(np.array([0], np.int64), back.size, np.array([address_of(back)], np.uint64)).wait()
        run = Run(0, len(blocks), given["c"], given["r"], given["b"])
        [result] = device.submit([ScoreRequest([run], given["q"], 4, Mode.TOPK, int(given["k"]))]).wait()
        telemetry = device.telemetry()
        answer = {
            "direct_io": device.capabilities.direct_io,
            "same": bool(np.array_equal(back, data)),
            "total": result.total.tolist(),
            "positions": result.positions.tolist(),
            "priorities": result.priorities.tolist(),
            "bad": result.bad.tolist(),
            "drive_to_device": telemetry.drive_to_device,
        }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
