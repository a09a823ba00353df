"""Merges equal modules of a design in Yosys's RTLIL text, so that hundreds of multipliers are synthesised once."""

from __future__ import annotations

import re

_MODULE = re.compile(r"((?:^attribute [^\n]*\n)*)^module (\S+)\n(.*?)^end\n", re.DOTALL | re.MULTILINE)
_CELL = re.compile(r"^(\s*cell )(\S+)( \S+)$", re.MULTILINE)
_WHERE = re.compile(r"^\s*attribute \\(?:src|hdlname) [^\n]*\n", re.MULTILINE)
_NUMBER = re.compile(r"\$(\d+)")


def dedupe(text: str, top: str) -> str:
    """``text`` with one module for all those that differ in names of instances and source lines only.

    read_slang makes a module per instance (``name$path``); what stays is called ``name``, ``name_1``, … KeyError where
    there is no module ``top``.
    """
    modules = {found[2]: (found[1], found[3]) for found in _MODULE.finditer(text)}
    renamed: dict[str, str] = {}
    kept: dict[tuple[str, str], str] = {}
    bodies: dict[str, str] = {}

    def visit(name: str) -> str:
        if name not in renamed:
            attributes, body = modules[name]
            body = _CELL.sub(lambda cell: cell[1] + (visit(cell[2]) if cell[2] in modules else cell[2]) + cell[3], body)
            base = name.partition("$")[0]
            identity = base, _normal(body)
            if identity not in kept:
                same = sum(other == base for other, _ in kept)
                kept[identity] = f"{base}_{same}" if same else base
                bodies[kept[identity]] = f"{attributes}module {kept[identity]}\n{body}end\n"
            renamed[name] = kept[identity]
        return renamed[name]

    visit("\\" + top)
    return text[: text.index("attribute")] + "".join(bodies.values())


def _normal(body: str) -> str:
    """A module's text without source lines, its automatic names numbered from zero."""
    numbers: dict[str, int] = {}
    return _NUMBER.sub(lambda found: f"${numbers.setdefault(found[1], len(numbers))}", _WHERE.sub("", body))
