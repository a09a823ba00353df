"""Which proofs there are and how far each engine takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearkv_drivers.hardware import hardware_root, rtl_sources
from nearkv_sim.yosys import run_script

PACKAGE = "nearkv_pkg.sv"

SHARED = "queue"
"""What several proofs use, no proof of its own."""


@dataclass(frozen=True)
class Plan:
    """How far each engine takes a proof. Without ``induction`` the bound is all.

    ``depth``: cycles from reset of bounded model checking. ``covers``: cycles within which every cover statement is
    reached, where there are any. ``induction``: the largest k tried where the properties are inductive. ``reach``:
    seconds for another engine that needs no lemmas. ``steady``: cycles from reset of bounded model checking with
    neither side of the block ever waiting, where waits leave too much open for whole runs. ``narrow``: constants of
    the RTL's package that the proof makes smaller; the block takes its widths from there, and the solver gets further
    with narrow ones.
    """

    depth: int
    covers: int | None = None
    induction: int | None = None
    reach: int | None = None
    steady: int | None = None
    narrow: Mapping[str, int] = field(default_factory=dict)


PLANS = {
    "axi_reader": Plan(depth=20, induction=4),
    "axi_writer": Plan(depth=20, induction=4),
    "control": Plan(depth=20, covers=20, induction=4),
    "fifo": Plan(depth=20, covers=10, induction=4, reach=30),
    "keep_best": Plan(
        depth=10, covers=34, steady=30, narrow={"PRIORITY_BITS": 1, "POSITION_BITS": 6, "K_BITS": 5}
    ),
    "merge_stage": Plan(depth=18, covers=20, induction=4),
    "ram_fifo": Plan(depth=20, covers=12, induction=4, reach=30),
    "skid": Plan(depth=20, covers=8, induction=4, reach=30),
}
"""How each proof is decided."""


def folder() -> Path:
    """Where the properties lie."""
    return hardware_root() / "fpga" / "formal"


def proofs() -> list[str]:
    """Names of all proofs."""
    names = {path.stem.removeprefix("prove_") for path in folder().glob("prove_*.sv")}
    return sorted(names - {SHARED})


def _narrowed(package: Path, name: str, work: Path) -> Path:
    """A copy of the package in ``work`` with the constants of the plan of ``name``."""
    text = package.read_text(encoding="utf-8")
    for constant, value in PLANS[name].narrow.items():
        text, found = re.subn(rf"(localparam int unsigned {constant} = )\d+;", rf"\g<1>{value};", text)
        if found != 1:
            raise RuntimeError(f"{package} does not define {constant}, which the proof {name} makes smaller")
    copy = work / PACKAGE
    copy.write_text(text, encoding="utf-8")
    return copy


@dataclass(frozen=True)
class Proof:
    """``prove_{name}`` over ``sources``, the RTL in compilation order (None: the RTL as it is); see Plan ``steady``."""

    name: str
    sources: Sequence[Path] | None = None
    steady: bool = False

    def translate(self, commands: Sequence[str], problem: Path) -> int:
        """Read and flatten the design, then run ``commands``, which write ``problem``; returns the assertions in it.

        Raises ModuleNotFoundError without pyosys, RuntimeError where a source or a command fails.
        """
        files = [path for path in self.sources or rtl_sources() if path.suffix == ".sv"]
        if PLANS[self.name].narrow:
            files = [_narrowed(path, self.name, problem.parent) if path.name == PACKAGE else path for path in files]
        files += [folder() / f"prove_{part}.sv" for part in (SHARED, self.name)]
        steady = " -G STEADY=1" if self.steady else ""
        log, statistics = problem.with_suffix(".log"), problem.with_suffix(".stat")
        script = (
            f"read_slang --top prove_{self.name}{steady} {' '.join(map(str, files))}",
            f"prep -flatten -top prove_{self.name}",
            "async2sync",
            "chformal -lower",
            f"tee -q -o {statistics} stat",
            *commands,
        )
        run_script(script, log)
        found = re.search(r"(\d+)\s+\$assert", statistics.read_text(encoding="utf-8"))
        return int(found[1]) if found else 0
