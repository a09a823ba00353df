"""What the runs of a real kernel counted, for telemetry. The simulated kernel's figures are in rtl_figures.py."""

from __future__ import annotations

import threading

from nearkv_drivers.hardware_start import Completion


class RunFigures:
    """Sums over all runs since the device was opened; a kernel start is one run per compute unit that it used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = self._requests = 0
        self._sum = Completion(0, 0, 0)

    def add(self, run: Completion, requests: int) -> None:
        """Count one run of ``requests`` requests."""
        with self._lock:
            self._runs += 1
            self._requests += requests
            self._sum = Completion(*(a + b for a, b in zip(self._sum, run, strict=True)))

    def extra(self) -> dict[str, float]:
        """For Telemetry.extra: ``kernel_runs``, ``kernel_requests`` and, from kernels that count (RTL), sums of
        ``kernel_cycles`` and ``key_beats`` (64 bytes each), and ``beats_per_cycle`` from first to last beat."""
        with self._lock:
            runs, requests, total = self._runs, self._requests, self._sum
        figures: dict[str, float] = {"kernel_runs": runs, "kernel_requests": requests}
        if total.cycles:
            figures |= {
                "kernel_cycles": total.cycles,
                "key_beats": total.beats,
                "beats_per_cycle": total.beats / max(total.stream_cycles, 1),
            }
        return figures
