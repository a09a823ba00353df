"""What the simulated kernel's starts cost, in cycles, and the time that they mean at the clock of a SmartSSD."""

from __future__ import annotations

import threading
from dataclasses import dataclass

KERNEL_HZ = 300e6
"""Highest kernel clock of a SmartSSD's platform; the card may run below it."""


@dataclass(frozen=True)
class Start:
    """One kernel start. ``cycles`` run from start to interrupt, ``stream_cycles`` from first to last key beat,
    summed over its requests; in ``key_waits`` cycles a burst of keys waited for the memory."""

    cycles: int
    beats: int
    stream_cycles: int
    key_waits: int
    requests: int

    @property
    def stalls(self) -> int:
        """Cycles between the first and the last key beat in which none was consumed."""
        return self.stream_cycles - self.beats


class Figures:
    """Sums over all starts since the device was opened, and the last start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts = 0
        self._sum = Start(0, 0, 0, 0, 0)
        self._last = self._sum

    def add(self, start: Start) -> None:
        """Count ``start``."""
        with self._lock:
            self._starts += 1
            self._last = start
            one = self._sum
            self._sum = Start(
                one.cycles + start.cycles,
                one.beats + start.beats,
                one.stream_cycles + start.stream_cycles,
                one.key_waits + start.key_waits,
                one.requests + start.requests,
            )

    @property
    def last(self) -> Start:
        """The last start."""
        with self._lock:
            return self._last

    def extra(self) -> dict[str, float]:
        """For Telemetry.extra. Empty before the first start.

        ``kernel_starts`` and ``kernel_requests`` count; ``kernel_cycles``, ``key_beats``, ``stream_stalls`` and
        ``memory_waits`` are sums over the starts, and the same names with ``_per_start`` their means. A beat is 64
        bytes: ``beats_per_cycle`` counts from the first to the last beat of each request,
        ``beats_per_cycle_end_to_end`` from start to interrupt. ``simulated_seconds_at_300_mhz`` is what the cycles
        mean in time, not what the simulation took. ``last_start_…`` are those of the last start.
        """
        with self._lock:
            starts, total, last = self._starts, self._sum, self._last
        if not starts:
            return {}
        sums = {
            "kernel_cycles": total.cycles,
            "key_beats": total.beats,
            "stream_stalls": total.stalls,
            "memory_waits": total.key_waits,
        }
        return {
            "kernel_starts": starts,
            "kernel_requests": total.requests,
            **sums,
            **{f"{name}_per_start": value / starts for name, value in sums.items()},
            "beats_per_cycle": total.beats / max(total.stream_cycles, 1),
            "beats_per_cycle_end_to_end": total.beats / max(total.cycles, 1),
            "simulated_seconds_at_300_mhz": total.cycles / KERNEL_HZ,
            "last_start_cycles": last.cycles,
            "last_start_beats": last.beats,
            "last_start_stalls": last.stalls,
        }
