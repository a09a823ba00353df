"""No output, however odd, makes a parser fail in any way but by naming what is wrong; what is sane, is read exactly."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkv_drivers.fields import Fields, OutputError, load
from nearkv_drivers.nvme import page, parse

CAPTURES = {
    path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "nvme_captures").glob("*.json"))
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PARSERS = {
    "list": lambda text: parse.listing(text),
    "list-verbose": lambda text: parse.listing(text),
    "id-ctrl": lambda text: parse.controller(Fields(load(text, "id-ctrl"), "id-ctrl")),
    "id-ns": lambda text: parse.namespace(Fields(load(text, "id-ns"), "id-ns")),
    "smart-log": lambda text: parse.smart_log(Fields(load(text, "smart-log"), "smart-log")),
    "error-log": lambda text: parse.error_log(Fields(load(text, "error-log"), "error-log")),
}


def mutate(value: Any, data: st.DataObject) -> Any:
    """``value`` with one part replaced by anything, removed, or joined by an unknown neighbour."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 3)):
        key = data.draw(st.sampled_from(sorted(value)))
        match data.draw(st.sampled_from(["deeper", "remove", "add"])):
            case "remove":
                return {name: child for name, child in value.items() if name != key}
            case "add":
                return value | {data.draw(st.text(max_size=8)): data.draw(JSON)}
            case _:
                return value | {key: mutate(value[key], data)}
    if isinstance(value, list) and value and data.draw(st.integers(0, 3)):
        index = data.draw(st.integers(0, len(value) - 1))
        return [*value[:index], mutate(value[index], data), *value[index + 1 :]]
    return data.draw(JSON)


def refusal(name: str, text: str | bytes, *, default: str) -> str:
    """What the parser complains of, or ``default`` where it does not; anything but OutputError fails the test."""
    try:
        PARSERS[name](text)
    except OutputError as error:
        return str(error)
    return default


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_altered_outputs_are_read_or_refused_by_name(name: str, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(sorted(CAPTURES)))
    record = mutate(json.loads(CAPTURES[version][name]["stdout"]), data)
    assert name.removesuffix("-verbose") in refusal(name, json.dumps(record), default=name)


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.text() | st.binary() | JSON.map(json.dumps))
def test_any_text_is_read_or_refused_by_name(name: str, text: str | bytes) -> None:
    assert name.removesuffix("-verbose") in refusal(name, text, default=name)


def test_deep_nesting_is_refused() -> None:
    """Whatever the recursion limit: with a high one, Python's parser would overflow the stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300_000)
    try:
        with pytest.raises(OutputError, match=r"smart-log: not JSON .*deeper than 100"):
            load("[" * 100_000, "smart-log")
        assert load('{"a": "[[[[", "b": ' + "[" * 99 + "]" * 99 + "}", "smart-log")["a"] == "[[[["
    finally:
        sys.setrecursionlimit(limit)


@given(bytes_of_page=st.binary(min_size=page.SMART_BYTES, max_size=page.SMART_BYTES))
def test_any_smart_page_reads_the_same_raw_and_printed(bytes_of_page: bytes) -> None:
    """The raw page, its fields printed as numbers and its fields printed as strings give one and the same log."""
    fields = page.smart_fields(bytes_of_page)
    numbers = {name: fields.integer(name) for name in fields.names()}
    strings = {name: str(value) for name, value in numbers.items()}
    expected = parse.smart_log(fields)
    assert parse.smart_log(Fields(numbers, "numbers")) == expected
    assert parse.smart_log(Fields(strings, "strings")) == expected
    assert expected.bytes_written == int.from_bytes(bytes_of_page[48:64], "little") * 512_000


@given(pages=st.lists(st.binary(min_size=64, max_size=64), max_size=5), rest=st.integers(1, 63))
def test_error_pages_hold_whole_entries(pages: list[bytes], rest: int) -> None:
    entries = parse.error_log(page.error_fields(b"".join(pages)))
    assert len(entries) == sum(any(one[:8]) for one in pages)
    with pytest.raises(OutputError, match="no whole entries"):
        page.error_fields(b"".join(pages) + bytes(rest))
