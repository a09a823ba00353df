"""What tests of cards have in common."""

from __future__ import annotations

from streams import Stream

import nearkv_drivers
from nearkv_drivers.device import Capabilities, Mode, ScoreResult, Telemetry


def score(url: str, stream: Stream) -> tuple[ScoreResult, Telemetry, Capabilities]:
    """Open ``url``, write ``stream`` so that the drive must bring it, and score it."""
    with nearkv_drivers.open(url) as device:
        stream.write(device, 0, score_blocks=False)
        [result] = device.submit([stream.request(Mode.MASS)]).wait()
        return result, device.telemetry(), device.capabilities
