"""Options that several commands share. Those of tiering are in ``tier_options``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from nearkv.loading import DEMO_MODEL, cache_folder
from nearkv.policy import names

POLICIES = ", ".join(names())
ModelName = Annotated[str, typer.Option("--model", help="Model folder, .gguf file or cached hub id.")]
DeviceUrl = Annotated[
    str | None,
    typer.Option("--device", help="Device URL, such as emulated:/data/kv.drive?ddr=4GiB. Default: a file of its own."),
]
Budget = Annotated[int, typer.Option("--budget", help="Tokens that attention may read per step and layer.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")]

DEFAULT_MODEL = DEMO_MODEL


def default_device() -> str:
    """An emulated drive on a file of this process's own, removed on close."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return f"emulated:{folder}/drive-{os.getpid()}"
