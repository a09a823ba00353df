"""The machine behind the pyxrt stand-in: one card with DRAM, Verilated kernels as compute units, and its faults."""

from __future__ import annotations

import importlib.util
import json
import queue
import threading
import uuid
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

from nearkv_drivers.hardware import hardware_root, kernel_interface

from .simulated import Bank, SimulatedUnit

ADDRESS = "0000:65:00.1"
SHELL = "xilinx_u2_gen3x4_xdma_gc_base_2"
PLATFORM = "xilinx_u2_gen3x4_xdma_gc_2_202110_1"


def kernel_arguments() -> list[dict[str, str]]:
    """The arguments as v++ takes them over: from the kernel.xml that packaging writes."""
    path = hardware_root() / "fpga" / "package" / "kernel_xml.py"
    spec = importlib.util.spec_from_file_location("kernel_xml", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tree: ET.ElementTree = module.kernel_xml(kernel_interface())
    return [dict(argument.attrib) for argument in tree.getroot().iter("arg")]


def write_xclbin(path: Path, **changes) -> Path:
    """A file that the stand-in takes for an xclbin."""
    content = {
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, path.name)),
        "platform": PLATFORM,
        "kernel": kernel_interface()["kernel"],
        "arguments": kernel_arguments(),
        "compute_units": 1,
        "banks": [{"tag": "bank0", "index": 0, "size_kb": 192 << 10, "used": True}],
    }
    path.write_text(json.dumps(content | changes))
    return path


@dataclass
class Faults:
    """What is wrong with the card. ``p2p``: "works"; "refused" (allocation fails); "dead" (allocated, not mapped: an
    access is a SIGBUS); "detached" (mapped to pages that the card never sees); "wraps" (a window smaller than it says);
    "misaligned"."""

    p2p: str = "works"
    other_uuid: bool = False
    refuses_xclbin: bool = False
    hangs: bool = False
    skips: bool = False
    """Runs end at once, without the kernel."""
    ends_with: str = "ERT_CMD_STATE_COMPLETED"
    celsius: str = "58"
    p2p_status: str = "enabled"
    old: bool = False
    """pyxrt of about 2022.1: kernels do not say how many arguments they take."""
    mute: bool = False
    """get_info raises, as with an older XRT."""


@dataclass
class XrtCard:
    """``faults`` may be changed by a test; ``units_used`` counts the runs of each compute unit."""

    library: Path
    bank: Bank = field(default_factory=lambda: Bank(192 << 20))
    faults: Faults = field(default_factory=Faults)
    loaded: dict | None = None
    units_used: list[int] = field(default_factory=list)
    most_at_once: int = 0
    meeting: threading.Barrier | None = None
    """Where given, a unit that has a run begins it only when as many units have one."""

    def load(self, content: dict) -> None:
        self.close()
        self.loaded = content
        self._runs: queue.Queue = queue.Queue()
        self._busy = 0
        self._lock = threading.Lock()
        self.units_used = [0] * content["compute_units"]
        self._threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(len(self.units_used))
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        if self.loaded is not None:
            for _ in self._threads:
                self._runs.put(None)
            for thread in self._threads:
                thread.join()
            self.loaded = None

    def enqueue(self, run) -> None:
        self._runs.put(run)

    def _work(self, number: int) -> None:
        unit = SimulatedUnit(self.library, self.bank.bytes)
        while (run := self._runs.get()) is not None:
            with self._lock:
                self._busy += 1
                self.most_at_once = max(self.most_at_once, self._busy)
                self.units_used[number] += 1
            if self.meeting is not None:
                self.meeting.wait(timeout=60)
            if not (self.faults.hangs or self.faults.skips):
                self._execute(unit, run.registers())
            progress = run.progress
            del run  # and with it its buffers, before anybody sees that it is over
            if not self.faults.hangs:
                progress.state = self.faults.ends_with
            with self._lock:
                self._busy -= 1
        unit.close()

    @staticmethod
    def _execute(unit: SimulatedUnit, registers: dict[int, int]) -> None:
        """As XRT's scheduler: arguments, interrupt, start; then clear the interrupt and let the kernel go on."""
        for offset, value in registers.items():
            unit.write(offset, value)
        unit.write(0x04, 1)
        unit.write(0x08, 1)
        unit.write(0x00, 1)
        while not unit.advance():
            pass
        unit.write(0x0C, 1)
        unit.write(0x00, 0x10)
