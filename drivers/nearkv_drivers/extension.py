"""The native kernel, or one sentence that says how to get it."""

from __future__ import annotations

try:
    from nearkv_drivers import _kernel as kernel
except ImportError as error:
    raise ImportError(
        f"the native kernel of nearkv is missing or does not load ({error}): "
        "build it with `make build`, or reinstall the package with `pip install .`"
    ) from error

__all__ = ["kernel"]
