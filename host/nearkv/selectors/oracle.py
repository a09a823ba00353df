"""The oracle: exact log-mass from the full-precision keys. What every other selector approximates."""

from __future__ import annotations

from nearkv.selectors.base import FloatArray, exact_log_mass, register


@register("oracle")
class Oracle:
    """Reads every key."""

    def __init__(self, keys: FloatArray) -> None:
        self._keys = keys
        self.nbytes = keys.size * 2

    def estimate(self, queries: FloatArray, scale: float) -> FloatArray:
        """The exact log-mass [N, blocks]."""
        return exact_log_mass(queries, self._keys, scale)
