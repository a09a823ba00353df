"""What a Verilog module shows to the outside: ports, parameters, constants and instances, read with pyverilog.

Only these reach the parser: bodies are cut away first, so that neither their size nor what pyverilog does not know of
the language matters. Directives are followed here, because pyverilog leaves them to Icarus Verilog.
"""

from __future__ import annotations

import operator
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from nearkv_drivers.device import DeviceError


class VerilogError(DeviceError):
    """A source that cannot be read; the message names file and remedy."""


@dataclass(frozen=True)
class Port:
    """``width`` in bits, None where it is not constant; ``parameters`` are the names that its range mentions."""

    name: str
    direction: str
    width: int | None
    parameters: frozenset[str]

    def __str__(self) -> str:
        size = "" if self.width == 1 else " [?]" if self.width is None else f" [{self.width - 1}:0]"
        return f"{self.direction}{size}"


@dataclass(frozen=True)
class Instance:
    """A module instantiated inside another, with those parameter overrides that are constant."""

    module: str
    name: str
    parameters: Mapping[str, int]


@dataclass(frozen=True)
class Module:
    """``constants`` are parameters and local parameters by name, as far as their values are constant."""

    name: str
    path: Path
    ports: Mapping[str, Port]
    constants: Mapping[str, int]
    instances: Sequence[Instance]


class Library:
    """Modules of the files that were given, and of files beside them that are named like a module."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """VerilogError where a file is missing or none holds a module."""
        self.unread: dict[str, str] = {}
        """Inner modules that pyverilog could not read, with the reason."""
        self._texts: dict[str, tuple[str, Path]] = {}
        self._order: list[str] = []
        self._folders = list(dict.fromkeys(path.parent for path in paths))
        for path in paths:
            self._order += self._add(path)
        if not self._order:
            raise VerilogError(f"{', '.join(map(str, paths))} holds no Verilog module")

    def files(self) -> list[Path]:
        """The files that were given and those found beside them so far."""
        return list(dict.fromkeys(path for _, path in self._texts.values()))

    def top(self, name: str) -> Module:
        """The module ``name``, else the first one that no other given module instantiates."""
        if name in self._texts:
            return self.module(name, ports=True)
        inner = {instance.module for known in self._order for instance in self.module(known).instances}
        return self.module(next((known for known in self._order if known not in inner), self._order[0]), ports=True)

    def find(self, name: str) -> Module | None:
        """The module ``name`` from the given files or from ``name.v`` or ``name.sv`` beside them."""
        if name not in self._texts:
            beside = (folder / f"{name}{suffix}" for folder in self._folders for suffix in (".v", ".sv"))
            path = next((path for path in beside if path.is_file()), None)
            if path is None or name not in self._add(path):
                return None
        return self.module(name)

    def below(self, top: Module) -> Iterator[Module]:
        """Every module under ``top`` whose source is at hand and can be read, each once, upper ones first."""
        todo, seen = [top], {top.name}
        while todo:
            names = [instance.module for instance in todo.pop(0).instances]
            for name in (name for name in dict.fromkeys(names) if name not in seen):
                seen.add(name)
                try:
                    module = self.find(name)
                except VerilogError as error:
                    self.unread[name] = str(error)
                    continue
                if module is not None:
                    todo.append(module)
                    yield module

    @lru_cache  # noqa: B019 - a library lives as long as one check
    def module(self, name: str, ports: bool = False) -> Module:
        """Parse the module ``name``. Without ``ports`` a port list that pyverilog cannot read is left out."""
        text, path = self._texts[name]
        try:
            return _parse(_interface(text), path)
        except VerilogError:
            if ports:
                raise
        return _parse(_interface(text, ports=False), path)

    def _add(self, path: Path) -> list[str]:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise VerilogError(f"{path} cannot be read: {error.strerror}") from error
        found = dict(_modules(preprocess(text, path)))
        self._texts |= {name: (body, path) for name, body in found.items() if name not in self._texts}
        return list(found)


# ---- directives ----------------------------------------------------------------------------------

_NOISE = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/|\(\*(?!\s*\)).*?\*\)', re.DOTALL)
"""Strings (they stay), comments, attributes."""


def preprocess(text: str, path: Path) -> str:
    """``text`` without comments, attributes and directives, conditions and simple macros followed.

    VerilogError for an included file that does not lie beside ``path``.
    """
    return "\n".join(_directives(_without_noise(text), path, {}))


def _without_noise(text: str) -> str:
    return _NOISE.sub(lambda found: found[1] or " ", text)


def _directives(text: str, path: Path, macros: dict[str, str]) -> Iterator[str]:
    taken: list[tuple[bool, bool]] = []  # is this branch read, was any branch of the condition read
    for line in text.replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        name, _, value = rest.strip().partition(" ")
        if word in ("`ifdef", "`ifndef"):
            taken.append(((name in macros) == (word == "`ifdef"),) * 2)
        elif word in ("`elsif", "`else") and taken:
            now = not taken[-1][1] and (word == "`else" or name in macros)
            taken[-1] = now, taken[-1][1] or now
        elif word == "`endif" and taken:
            taken.pop()
        elif not all(read for read, _ in taken):
            continue
        elif word == "`define":
            macros[name] = value.strip()
        elif word == "`undef":
            macros.pop(name, None)
        elif word == "`include":
            yield from _included(rest, path, macros)
        elif re.fullmatch(r"`(?:timescale|default_nettype|celldefine|endcelldefine|resetall|line|pragma)", word):
            continue
        else:
            yield _expanded(line, macros)


def _expanded(line: str, macros: Mapping[str, str]) -> str:
    for _ in range(len(macros)):  # a macro may name another one
        replaced = re.sub(r"`(\w+)", lambda found: macros.get(found[1], found[0]), line)
        if replaced == line:
            break
        line = replaced
    return line


def _included(name: str, path: Path, macros: dict[str, str]) -> Iterator[str]:
    file = path.parent / name.strip('" ')
    if not file.is_file():
        raise VerilogError(f"{path} includes {file.name}, which is not beside it: put it there")
    yield from _directives(_without_noise(file.read_text(encoding="utf-8", errors="replace")), file, macros)


# ---- modules and what is kept of them --------------------------------------------------------------

_MODULE = re.compile(r"\b(?:macro)?module\s+(\\\S+|\w+)\b.*?\bendmodule\b", re.DOTALL)
_BODIES = re.compile(r"\b(function|task)\b.*?\bend\1\b", re.DOTALL)
_IMPORT = re.compile(r"\bimport\s+[^;]*;")
_TYPES = re.compile(r"\b(?:logic|bit|int|unsigned|var)\b")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\\\S+|[()\[\]{};]')
_LEADING = re.compile(
    r"(?:\s|(?:begin|end)\b(?:\s*:\s*\w+)?|(?:generate|else|end(?:generate|case))\b"
    r"|(?:if|for)\s*\((?:[^()]|\([^()]*\))*\)(?=\s*begin\b))*"
)
"""What may stand between a semicolon and the declaration or instance that follows it."""
_DECLARATION = re.compile(r"(?:parameter|localparam|input|output|inout)\b")
_INSTANCE = re.compile(r"(\\\S+|\w+\b)\s*(?:#\s*(\(.*\)))?\s*(\\\S+\s|\w+)\s*\(.*\)$", re.DOTALL)
_STATEMENTS = {
    "always", "assign", "case", "casex", "casez", "else", "for", "forever", "if", "initial", "repeat", "while", "wait",
    "and", "nand", "or", "nor", "xor", "xnor", "buf", "not", "assert", "assume", "cover",
}  # fmt: skip
"""What looks like a module's name in front of a bracket, and is not one."""


def _modules(text: str) -> Iterator[tuple[str, str]]:
    for found in _MODULE.finditer(text):
        yield found[1].lstrip("\\"), found[0]


def _statements(text: str) -> Iterator[str]:
    """Pieces of ``text`` between semicolons outside brackets."""
    depth = start = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
        elif token[0] == ";" and depth <= 0:
            yield text[start : token.start()]
            start = token.end()


def _interface(text: str, ports: bool = True) -> str:
    """Header, declarations and instances of a module's ``text``, in Verilog-2001; without ``ports`` no port list."""
    plain = _TYPES.sub(" ", _IMPORT.sub(" ", _BODIES.sub(" ", text)))
    statements = _statements(plain)
    header = next(statements, plain)
    if not ports:
        found = re.match(r"\s*module\s+(?:\\\S+|\w+)\s*(?:#\s*\()?", header)
        end = _closing(header, found.end()) if found and found[0].endswith("(") else found.end() if found else 0
        header = f"{header[:end]} ()"
    kept = [header]
    for statement in statements:
        piece = statement[match.end() :].strip() if (match := _LEADING.match(statement)) else statement
        if _DECLARATION.match(piece) and (ports or piece.startswith(("parameter", "localparam"))):
            kept.append(piece)
        elif (instance := _INSTANCE.match(piece)) and instance[1] not in _STATEMENTS:
            kept.append(f"{instance[1]} {'#' + instance[2] if instance[2] else ''} {instance[3]} ()")
    return ";\n".join([*kept, "endmodule\n"])


def _closing(text: str, start: int) -> int:
    """Where the bracket that is open at ``start`` ends."""
    depth = 1
    for token in _TOKEN.finditer(text, start):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth == 0:
            return token.end()
    return len(text)


# ---- pyverilog -----------------------------------------------------------------------------------

_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "Plus": operator.add, "Minus": operator.sub, "Times": operator.mul, "Divide": operator.floordiv,
    "Mod": operator.mod, "Power": operator.pow, "Sll": operator.lshift, "Srl": operator.rshift,
}  # fmt: skip
_BASES = {"b": 2, "o": 8, "d": 10, "h": 16}


@lru_cache
def _parser() -> Any:
    from pyverilog.vparser.parser import VerilogParser

    with tempfile.TemporaryDirectory() as folder:
        return VerilogParser(outputdir=folder, debug=False)


def _parse(text: str, path: Path) -> Module:
    """The one module of ``text``, as ``_interface`` leaves it."""
    from pyverilog.vparser.parser import ParseError

    try:
        (definition,) = _parser().parse(text).description.definitions
    except ParseError as error:
        name = text.split(maxsplit=2)[1]
        where = re.search(r"before: .*|at end of input", str(error))  # its line counts in the reduced text
        raise VerilogError(
            f"{path}: pyverilog cannot read the declarations of {name} ({where[0] if where else error})"
        ) from error
    declared = list(definition.paramlist.params if definition.paramlist else [])
    declared += [item for item in definition.items if type(item).__name__ != "InstanceList"]
    values = [value for item in declared for value in getattr(item, "list", (item,))]
    constants: dict[str, int] = {}
    for value in values:
        if type(value).__name__ in ("Parameter", "Localparam"):
            number = _value(value.value, constants)
            if number is not None:
                constants[value.name] = number
    signals = [port.first for port in definition.portlist.ports if hasattr(port, "first")] + values
    ports = [s for s in signals if type(s).__name__ in ("Input", "Output", "Inout")]
    return Module(
        definition.name, path, {port.name: _port(port, constants) for port in ports}, constants,
        [_instance(one, constants) for item in definition.items for one in getattr(item, "instances", ())],
    )  # fmt: skip


def _port(node: Any, constants: Mapping[str, int]) -> Port:
    if node.width is None:
        return Port(node.name, type(node).__name__.lower(), 1, frozenset())
    left, right = (_value(bound, constants) for bound in (node.width.msb, node.width.lsb))
    width = None if left is None or right is None else abs(left - right) + 1
    return Port(node.name, type(node).__name__.lower(), width, frozenset(_names(node.width)))


def _instance(node: Any, constants: Mapping[str, int]) -> Instance:
    given = {entry.paramname: _value(entry.argname, constants) for entry in node.parameterlist or ()}
    return Instance(
        node.module, node.name, {name: value for name, value in given.items() if name and value is not None}
    )


def _names(node: Any) -> Iterator[str]:
    if type(node).__name__ == "Identifier":
        yield node.name
    for child in node.children():
        yield from _names(child)


def _value(node: Any, constants: Mapping[str, int]) -> int | None:
    """The value of a constant expression, None where it is not one or uses what is not known here."""
    kind = type(node).__name__
    if kind == "Rvalue":
        return _value(node.var, constants)
    if kind == "IntConst":
        return _number(node.value)
    if kind == "Identifier":
        return constants.get(node.name)
    if kind in _OPERATORS:
        left, right = _value(node.left, constants), _value(node.right, constants)
        if left is None or right is None or (kind in ("Divide", "Mod") and not right):
            return None
        return _OPERATORS[kind](left, right)
    return None


def _number(text: str) -> int | None:
    size, quote, rest = text.lower().replace("_", "").replace(" ", "").partition("'")
    digits = rest.lstrip("s")
    try:
        return int(digits[1:], _BASES[digits[0]]) if quote else int(size)
    except (ValueError, KeyError, IndexError):
        return None  # x, z, '0
