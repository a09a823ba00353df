"""The demo's text and needle.

``text.txt`` is the King James Version (1611, copyright expired) of Ruth, Esther, Jonah and Daniel 1-6.
"""

from __future__ import annotations

from importlib.resources import files

NEEDLE = "The secret number of the lighthouse is 48213."
QUESTION = "What is the secret number of the lighthouse?"
NUMBER = "48213"


def text() -> str:
    """The long text, without the needle."""
    return files(__name__).joinpath("text.txt").read_text(encoding="utf-8")


def with_needle(document: str, depth: float) -> str:
    """``document`` with the needle as a paragraph of its own behind the share ``depth`` (0..1) of its length."""
    at = document.find("\n", int(len(document) * depth))
    at = len(document) if at < 0 else at
    return f"{document[:at]}\n\n{NEEDLE}\n\n{document[at:]}"
