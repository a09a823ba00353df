"""Files that people name: texts that are read, results that appear whole or not at all and overwrite nothing needed."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from nearkv.errors import InputError


def read_text(path: Path) -> str:
    """The text of ``path``. Raises InputError naming a file that is not text, OSError for one that cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start})") from error


def check_output(path: str | Path | None, *sources: str | Path | None) -> None:
    """Find out before the work that ``path`` cannot be written, or is one of the ``sources`` that the work reads.

    Raises InputError naming it. Folders that do not exist yet are no obstacle. None: nothing is to be written.
    """
    if path is None:
        return
    target = Path(path)
    if any(source is not None and _same(target, Path(source)) for source in sources):
        raise InputError(f"{path} is read by this command: write to another file")
    if target.is_dir():
        raise InputError(f"{path} is a folder: give the path of a file")
    folder = next(parent for parent in target.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise InputError(f"{path} cannot be written: {folder} is not a folder")
    if not os.access(target if target.exists() else folder, os.W_OK):
        raise InputError(f"no permission to write {path}")


@contextmanager
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file that is at ``path``, in place of what was there, once the block ends without an error, and not before.

    Folders are made as needed. What is no regular file (a pipe, /dev/stdout) is written as it is.
    """
    check_output(path)
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}-{secrets.token_hex(6)}")
    try:
        with partial.open("xb") as file:
            yield file
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_json(path: str | Path, content: Any, indent: int | None = 2) -> None:
    """Write ``content`` as JSON to ``path``, whole or not at all."""
    with whole_file(path) as file:
        file.write((json.dumps(content, indent=indent) + "\n").encode())


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
