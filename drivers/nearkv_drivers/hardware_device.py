"""What every device with the hardware kernel shares, simulated or real: the kernel's limits and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from nearkv_drivers.device import DeviceError, ScoreHandle, ScoreRequest, Telemetry
from nearkv_drivers.hardware import kernel_interface
from nearkv_drivers.hardware_figures import RunFigures
from nearkv_drivers.kernel import Kernel
from nearkv_drivers.kernel_memory import BEAT
from nearkv_drivers.rtl_figures import Figures
from nearkv_drivers.runs import RunTable
from nearkv_drivers.staged import StagedDevice


class HardwareKernel(Kernel, Protocol):
    """A kernel that counts what its starts cost."""

    @property
    def figures(self) -> Figures | RunFigures:
        """For Telemetry.extra."""


class HardwareDevice(StagedDevice):
    """A staged device around the RTL or HLS kernel, whatever runs it."""

    _kernel: HardwareKernel
    _limits: Mapping[str, int] = kernel_interface()["limits"]

    def telemetry(self) -> Telemetry:
        """The device's counters, and the kernel's figures in ``extra``."""
        telemetry = super().telemetry()
        telemetry.extra |= self._kernel.figures.extra()
        return telemetry

    def submit(self, requests: Sequence[ScoreRequest]) -> ScoreHandle:
        """See Device.submit; refuses what the kernel's memory layout or its store of log-masses cannot take."""
        for request in requests:
            runs = request.runs
            places = runs.places if isinstance(runs, RunTable) else [(run.offset, run.blocks) for run in runs]
            blocks = sum(count for _, count in places)
            group = request.q.shape[0]
            rows = blocks * -(-group // self._limits["heads_per_row"])
            if rows > self._limits["store_rows"]:
                raise DeviceError(
                    f"a request of {blocks} blocks for {group} query heads is more than the kernel's store of "
                    f"{self._limits['store_rows']} rows of {self._limits['heads_per_row']} heads: split it"
                )
            for offset, _ in places:
                if offset % BEAT:
                    raise DeviceError(f"a run at drive address {offset} does not begin on {BEAT} bytes: align it")
        return super().submit(requests)
