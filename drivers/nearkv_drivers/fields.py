"""Tolerant reading of the JSON that system tools print: their types and nesting change, the meaning does not."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from nearkv_drivers.device import DeviceError

MAX_NESTING = 100
"""More than any tool prints. Python's parser recurses on the C stack, which the recursion limit guards only at its
default."""

MAX_COUNTER = (1 << 128) - 1
"""The widest counters there are (NVMe's) have 128 bits."""


class OutputError(DeviceError):
    """A tool's output lacks a field or holds a value that makes no sense; the message names both."""


def load(text: bytes | str, source: str) -> dict[str, Any]:
    """The JSON object in ``text``; nothing at all is an empty object, as tools print nothing where nothing is.

    Raises OutputError naming ``source`` for text that is no JSON object.
    """
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    if not text.strip():
        return {}
    try:
        if _nesting(text) > MAX_NESTING:
            raise ValueError(f"nested deeper than {MAX_NESTING} levels")
        value = json.loads(text)
    except ValueError as error:
        raise OutputError(f"{source}: not JSON ({error}); it begins with {text.strip()[:60]!r}") from error
    if not isinstance(value, dict):
        raise OutputError(f"{source}: a {type(value).__name__} where a JSON object was expected")
    return value


def _nesting(text: str) -> int:
    """How deep brackets outside of strings are nested in ``text``."""
    depth = deepest = 0
    for token in re.findall(r'"(?:\\.|[^"\\])*"|[\[{]|[\]}]', text):
        if token in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in "]}":
            depth -= 1
    return deepest


def to_integer(value: object) -> int | None:
    """``value`` as a whole number: numbers, decimal or 0x strings, digit groups, {"value": …}; None if it is none."""
    if isinstance(value, Mapping):
        value = value.get("value")
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return round(value) if math.isfinite(value) else None
    if isinstance(value, str):
        digits = value.strip().replace(",", "").replace("_", "")
        try:
            return int(digits, 16) if digits.lower().startswith("0x") else int(digits)
        except ValueError:
            return None
    return None


class Fields:
    """One JSON object and what it is, so that every complaint can name the field and where it was read."""

    def __init__(self, record: object, source: str):
        """Raises OutputError where ``record`` is no JSON object."""
        if not isinstance(record, Mapping):
            raise OutputError(f"{source}: a {type(record).__name__} where a JSON object was expected")
        self._record = record
        self.source = source

    def __contains__(self, name: str) -> bool:
        return name in self._record

    def names(self) -> list[str]:
        """The fields that exist."""
        return [str(name) for name in self._record]

    def optional(self, *names: str, limit: int = MAX_COUNTER) -> int | None:
        """The first of ``names`` that exists, as a whole number from 0 to ``limit``; None where none exists."""
        for name in names:
            if self._record.get(name) is None:
                continue
            number = to_integer(self._record[name])
            if number is None or not 0 <= number <= limit:
                shown = repr(self._record[name])[:60]
                raise OutputError(f"{self.source}: {name} is {shown}, not a whole number from 0 to {limit}")
            return number
        return None

    def integer(self, *names: str, limit: int = MAX_COUNTER) -> int:
        """Like :meth:`optional`, for a field that every version prints. Raises OutputError naming it."""
        number = self.optional(*names, limit=limit)
        if number is None:
            raise OutputError(f"{self.source}: {names[0]} is missing")
        return number

    def text(self, *names: str) -> str | None:
        """The first of ``names`` that holds text (or a number), without padding; None where there is none."""
        for name in names:
            value = self._record.get(name)
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                return str(value).strip()
        return None

    def holds_list(self, name: str) -> bool:
        """Whether ``name`` is a list, for fields that are an object in some versions."""
        return isinstance(self._record.get(name), list)

    def records(self, name: str) -> list[Fields]:
        """The objects in the list ``name``; empty where it is missing. Raises OutputError where it is no list."""
        value = self._record.get(name)
        if value is None:
            return []
        if value == "":  # XRT writes empty lists as empty text
            return []
        if not isinstance(value, list):
            raise OutputError(f"{self.source}: {name} is a {type(value).__name__}, not a list")
        return [Fields(item, f"{self.source} {name}[{index}]") for index, item in enumerate(value)]

    def child(self, name: str) -> Fields:
        """The object ``name``; an empty one where it is missing or empty text (as XRT writes empty objects)."""
        value = self._record.get(name)
        return Fields({} if value is None or value == "" else value, f"{self.source} {name}")

    def flag(self, name: str) -> bool | None:
        """``name`` as yes or no (also "true", "false", 1, 0); None where it is missing or says neither."""
        value = self._record.get(name)
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(str(value).lower())

    def decimal(self, name: str) -> float | None:
        """``name`` as a number that may have decimals; None where it is missing or text such as N/A."""
        value = self._record.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        return number if math.isfinite(number) and number >= 0 else None
