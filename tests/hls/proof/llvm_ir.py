"""C++ to bit vectors: clang's LLVM IR of a function, followed along every path.

The functions of ``hls/csim/datapath.cpp`` become loop-free when clang unrolls and inlines them. What is translated is
what the compiler made of the very headers that Vitis synthesises. Byte arrays are read from memory given by the caller.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bitwuzla import Kind, Term
from hls.proof.bits import Bits

ROOT = Path(__file__).parents[3]
FLAGS = ["-std=c++14", "-O2", "-fwrapv", "-fno-vectorize", "-fno-slp-vectorize", "-fno-exceptions", "-fno-rtti"]
LIMITS = ["-mllvm", "-unroll-threshold=1000000", "-mllvm", "-inline-threshold=1000000"]
ARITHMETIC = {
    "add": Kind.BV_ADD,
    "sub": Kind.BV_SUB,
    "mul": Kind.BV_MUL,
    "xor": Kind.BV_XOR,
    "shl": Kind.BV_SHL,
    "lshr": Kind.BV_SHR,
    "ashr": Kind.BV_ASHR,
}
PREDICATES = {
    "eq": Kind.EQUAL,
    "ne": Kind.DISTINCT,
    "ult": Kind.BV_ULT,
    "ule": Kind.BV_ULE,
    "ugt": Kind.BV_UGT,
    "uge": Kind.BV_UGE,
    "slt": Kind.BV_SLT,
    "sle": Kind.BV_SLE,
    "sgt": Kind.BV_SGT,
    "sge": Kind.BV_SGE,
}
MINMAX = {"smax": Kind.BV_SGT, "smin": Kind.BV_SLT, "umax": Kind.BV_UGT, "umin": Kind.BV_ULT}
POINTER = r"(?:ptr|[\w%\[\]. ]+\*+)"
WIDTH = r"i(\d+)"
VALUE = r"(%[\w.]+|-?\d+|true|false)"


def compiler() -> str | None:
    """A clang++ on the PATH, the plain name first."""
    names = ["clang++", *(f"clang++-{version}" for version in range(22, 12, -1))]
    return next((found for name in names if (found := shutil.which(name))), None)


@lru_cache
def module(source: str = "hls/csim/datapath.cpp") -> str:
    """The LLVM IR of ``source``."""
    command = [str(compiler()), *FLAGS, *LIMITS, "-Wno-unknown-pragmas", "-S", "-emit-llvm", "-o", "-", source]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


@dataclass(frozen=True)
class Pointer:
    """A place in one of the caller's arrays."""

    array: str
    offset: int


class Function:
    """One function of the IR; call it with terms, and byte arrays (lists of 8-bit terms) for pointers."""

    def __init__(self, bits: Bits, name: str, text: str | None = None) -> None:
        text = module() if text is None else text
        found = re.search(rf"^define [^\n]*@{name}\(([^\n]*)\)[^\n]*\{{\n(.*?)\n\}}", text, re.MULTILINE | re.DOTALL)
        if found is None:
            raise ValueError(f"{name} is not in the LLVM IR")
        self.bits = bits
        self.parameters = re.findall(r"(%[\w.]+)(?:,|$)", found.group(1))
        # The entry block is labelled with the number that follows the parameters.
        blocks = re.split(r"^(\w+):[^\n]*$", f"{len(self.parameters)}:\n{found.group(2)}", flags=re.MULTILINE)
        self.blocks = {blocks[i]: blocks[i + 1].strip().splitlines() for i in range(1, len(blocks), 2)}
        self.entry = blocks[1]

    def __call__(self, *arguments: Term | Sequence[Term]) -> Term:
        """The function's value; what it stores lands in the caller's lists."""
        return _Run(self, arguments).result()


class _Run:
    def __init__(self, function: Function, arguments: Sequence[Term | Sequence[Term]]) -> None:
        self.function, self.bits = function, function.bits
        self.values: dict[str, Term | Pointer] = {}
        self.memory: dict[str, list[Term]] = {}
        for name, argument in zip(function.parameters, arguments, strict=True):
            if isinstance(argument, Term):
                self.values[name] = argument
            else:
                self.values[name] = Pointer(name, 0)
                self.memory[name] = argument if isinstance(argument, list) else list(argument)

    def result(self) -> Term:
        """Walk the blocks in order; each is reached where one of its incoming edges is taken."""
        edges: dict[tuple[str, str], Term] = {}
        order = list(self.function.blocks)
        returned: Term | None = None
        for index, label in enumerate(order):
            reached = self._reached(label, edges)
            for line in self.function.blocks[label]:
                text = re.sub(r", ![\w.]+ ![\w.]+|, align \d+|#\d+|;.*", "", line).strip()
                if text.startswith("ret "):
                    value = re.fullmatch(rf"ret {WIDTH} {VALUE}", text)
                    returned = self._scalar(value[2], int(value[1])) if value else self.bits.const(1, 0)
                elif text.startswith("br "):
                    self._branch(text, label, reached, edges, set(order[: index + 1]))
                else:
                    self._instruction(text, label, edges, reached)
        assert returned is not None
        return returned

    def _reached(self, label: str, edges: Mapping[tuple[str, str], Term]) -> Term:
        if label == self.function.entry:
            return self.bits.const(1, 1)
        reached = self.bits.const(1, 0)
        for (_, target), taken in edges.items():
            if target == label:
                reached = self.bits.either(reached, taken)
        return reached

    def _branch(
        self, text: str, label: str, reached: Term, edges: dict[tuple[str, str], Term], before: set[str]
    ) -> None:
        targets = re.findall(r"label %(\w+)", text)
        if before & set(targets):
            raise ValueError("the function has a loop: raise the unrolling limit")
        if len(targets) == 1:
            edges[label, targets[0]] = reached
            return
        condition = self._scalar(re.match(rf"br i1 {VALUE}", text)[1], 1)  # type: ignore[index]
        edges[label, targets[0]] = self.bits.both(reached, condition)
        edges[label, targets[1]] = self.bits.both(reached, self.bits.op(Kind.BV_NOT, condition))

    def _scalar(self, name: str, width: int) -> Term:
        if name.startswith("%"):
            value = self.values[name]
            assert isinstance(value, Term)
            assert self.bits.width(value) == width
            return value
        return self.bits.const(width, {"true": 1, "false": 0}[name] if name in ("true", "false") else int(name))

    def _pointer(self, name: str) -> Pointer:
        value = self.values[name]
        assert isinstance(value, Pointer)
        return value

    def _instruction(self, text: str, label: str, edges: Mapping[tuple[str, str], Term], reached: Term) -> None:
        if text.startswith("store "):
            width, value, place = re.fullmatch(rf"store {WIDTH} {VALUE}, {POINTER} (%[\w.]+)", text).groups()  # type: ignore[union-attr]
            self._store(self._pointer(place), self._scalar(value, int(width)), reached)
            return
        if "@llvm.lifetime" in text or not text:
            return
        target, body = text.split(" = ", 1)
        self.values[target] = self._evaluate(body.removeprefix("tail "), label, edges)

    def _evaluate(self, body: str, label: str, edges: Mapping[tuple[str, str], Term]) -> Term | Pointer:
        name = body.split()[0]
        if name == "phi":
            return self._phi(body, label, edges)
        if name in ("getelementptr", "bitcast"):
            return self._address(body)
        if name == "load":
            width, place = re.fullmatch(rf"load {WIDTH}, {POINTER} (%[\w.]+)", body).groups()  # type: ignore[union-attr]
            return self._load(self._pointer(place), int(width))
        if name == "call":
            return self._intrinsic(body)
        return self._arithmetic(name, body)

    def _arithmetic(self, name: str, body: str) -> Term:
        bits = self.bits
        if name in ("zext", "sext", "trunc"):
            width, value, to = re.fullmatch(rf"\w+ {WIDTH} {VALUE} to {WIDTH}", body).groups()  # type: ignore[union-attr]
            return bits.extend(self._scalar(value, int(width)), int(to), signed=name == "sext")
        if name == "select":
            condition, width, a, b = re.fullmatch(  # type: ignore[union-attr]
                rf"select i1 {VALUE}, {WIDTH} {VALUE}, i\d+ {VALUE}", body
            ).groups()
            return bits.choose(*(self._scalar(v, w) for v, w in ((condition, 1), (a, int(width)), (b, int(width)))))
        found = re.fullmatch(rf"(\w+)((?: [a-z]+)*) {WIDTH} {VALUE}, {VALUE}", body)
        if found is None:
            raise ValueError(f"no translation for: {body}")
        flags, width = found[2].split(), int(found[3])
        left, right = self._scalar(found[4], width), self._scalar(found[5], width)
        if name == "icmp":
            return bits.op(PREDICATES[flags[-1]], left, right)
        if name in ("and", "or"):
            return bits.both(left, right) if name == "and" else bits.either(left, right)
        return bits.op(ARITHMETIC[name], left, right)

    def _phi(self, body: str, label: str, edges: Mapping[tuple[str, str], Term]) -> Term:
        width = int(re.match(rf"phi {WIDTH}", body)[1])  # type: ignore[index]
        chosen: Term | None = None
        for value, source in re.findall(rf"\[ {VALUE}, %(\w+) \]", body):
            term = self._scalar(value, width)
            chosen = term if chosen is None else self.bits.choose(edges[source, label], term, chosen)
        assert chosen is not None
        return chosen

    def _address(self, body: str) -> Pointer:
        if body.startswith("bitcast"):
            return self._pointer(re.fullmatch(rf"bitcast {POINTER} (%[\w.]+) to {POINTER}", body)[1])  # type: ignore[index]
        element, place, index = re.fullmatch(  # type: ignore[union-attr]
            rf"getelementptr (?:inbounds )?{WIDTH}, {POINTER} (%[\w.]+), i64 (-?\d+)", body
        ).groups()
        base = self._pointer(place)
        return Pointer(base.array, base.offset + int(index) * int(element) // 8)

    def _load(self, at: Pointer, width: int) -> Term:
        cells = self.memory[at.array][at.offset : at.offset + width // 8]
        return self.bits.concat(cells[::-1])

    def _store(self, at: Pointer, value: Term, reached: Term) -> None:
        for i in range(self.bits.width(value) // 8):
            byte = self.bits.extract(value, 8 * i + 7, 8 * i)
            cells = self.memory[at.array]
            cells[at.offset + i] = self.bits.choose(reached, byte, cells[at.offset + i])

    def _intrinsic(self, body: str) -> Term:
        found = re.search(r"@llvm\.(\w+)\.i(\d+)\((.*)\)", body)
        if found is None:
            raise ValueError(f"no translation for: {body}")
        name, width = found[1], int(found[2])
        values = [self._scalar(v, int(w)) for w, v in re.findall(rf"{WIDTH} (?:noundef )?{VALUE}", found[3])]
        bits = self.bits
        if name == "abs":
            negative = bits.op(Kind.BV_SLT, values[0], bits.const(width, 0))
            return bits.choose(negative, bits.op(Kind.BV_NEG, values[0]), values[0])
        if name in MINMAX:
            return bits.choose(bits.op(MINMAX[name], values[0], values[1]), values[0], values[1])
        if name == "fshl" and values[2].is_value():
            shift = int(values[2].value(10)) % width
            both = bits.concat(values[:2])
            return bits.extract(both, 2 * width - 1 - shift, width - shift)
        raise ValueError(f"no translation for: {body}")
