"""Lints the RTL: ``verilator --lint-only -Wall`` with the waivers of ``fpga/lint.vlt``, and a parse by slang.

``python -m nearkv_sim.lint`` prints every finding and exits with 1 where there is one.
"""

from __future__ import annotations

import subprocess
import sys

from nearkv_drivers.device import DeviceError
from nearkv_drivers.hardware import hardware_root, rtl_sources
from nearkv_drivers.verilator import find_verilator

TOP = "nearkv_kernel"


def verilator_findings() -> list[str]:
    """Verilator's warnings and errors on the sources, as it words them."""
    waivers = hardware_root() / "fpga" / "lint.vlt"
    done = subprocess.run(
        [str(find_verilator().executable), "--lint-only", "-Wall", "--top-module", TOP, str(waivers),
         *map(str, rtl_sources())],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    text = (done.stdout + done.stderr).strip()
    findings = [line for line in text.splitlines() if line.startswith("%")]
    return findings or ([text] if done.returncode else [])


def slang_findings() -> list[str]:
    """A second opinion on the language, not on style. slang prints what it finds; this returns how much that was."""
    from pyslang.driver import Driver

    driver = Driver()
    driver.addStandardArgs()
    words = " ".join(f'"{path}"' for path in rtl_sources())
    if not driver.parseCommandLine(f"slang --top {TOP} {words}") or not driver.processOptions():
        return ["slang does not take the file list"]
    parsed = driver.parseAllSources()
    driver.reportCompilation(driver.createCompilation(), True)
    errors, warnings = driver.diagEngine.numErrors, driver.diagEngine.numWarnings
    clean = parsed and not errors and not warnings
    return [] if clean else [f"slang: {errors} errors, {warnings} warnings"]


def main() -> int:
    """Lint; returns the exit status."""
    try:
        findings = [*verilator_findings(), *slang_findings()]
    except DeviceError as error:
        findings = [f"error: {error}"]
    except ImportError as error:
        findings = [f"error: linting needs the package {error.name}: pip install 'nearkv[sim]'"]
    for line in findings:
        print(line, file=sys.stderr)
    if not findings:
        print(f"lint: {len(rtl_sources())} files, verilator -Wall and slang have nothing to say")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
