"""Optional parts: one clear sentence naming the extra where its package is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from nearkv.errors import UnsupportedError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import ``module`` of the extra ``extra``. Raises UnsupportedError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnsupportedError(
            f"{purpose} needs the package {module.partition('.')[0]!r}: pip install 'nearkv[{extra}]'"
        ) from error
