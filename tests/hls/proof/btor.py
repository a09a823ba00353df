"""RTL to bit vectors: BTOR2 from yosys (read_slang), unrolled lazily over cycles from an arbitrary state."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bitwuzla import Kind, Term
from hls.proof.bits import Bits

ROOT = Path(__file__).parents[3]
RTL = ROOT / "fpga" / "rtl"
PASSES = ("proc", "flatten", "opt -full", "memory_map", "opt -full", "dffunmap", "opt_clean")
SPLIT = ("splitnets -driver", "opt_clean")
UNARY = {"not": Kind.BV_NOT, "neg": Kind.BV_NEG, "inc": Kind.BV_INC, "dec": Kind.BV_DEC}
UNARY |= {"redand": Kind.BV_REDAND, "redor": Kind.BV_REDOR, "redxor": Kind.BV_REDXOR}
BINARY = {
    "add": Kind.BV_ADD,
    "sub": Kind.BV_SUB,
    "mul": Kind.BV_MUL,
    "xor": Kind.BV_XOR,
    "xnor": Kind.BV_XNOR,
    "nand": Kind.BV_NAND,
    "nor": Kind.BV_NOR,
    "sll": Kind.BV_SHL,
    "srl": Kind.BV_SHR,
    "sra": Kind.BV_ASHR,
    "concat": Kind.BV_CONCAT,
    "eq": Kind.EQUAL,
    "neq": Kind.DISTINCT,
    "ult": Kind.BV_ULT,
    "ulte": Kind.BV_ULE,
    "ugt": Kind.BV_UGT,
    "ugte": Kind.BV_UGE,
    "slt": Kind.BV_SLT,
    "slte": Kind.BV_SLE,
    "sgt": Kind.BV_SGT,
    "sgte": Kind.BV_SGE,
}

_YOSYS = """
import sys
from pyosys import libyosys as ys
design = ys.Design()
for line in sys.stdin.read().splitlines():
    ys.run_pass(line, design)
"""


@lru_cache
def netlist(
    top: str,
    sources: tuple[Path, ...],
    parameters: tuple[tuple[str, int], ...] = (),
    replace: tuple[str, str] | None = None,
    split: bool = False,
) -> str:
    """BTOR2 of ``top``; ``sources`` in compilation order, packages first, ``top``'s own last.

    ``replace`` plants a bug: the first text becomes the second in the last source that contains it. ``split`` names the
    elements of arrays that go through ports, ``name[high:low]``.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "top.btor"
        if replace is not None:
            sources = _planted(sources, replace, Path(folder))
        options = "".join(f" -G {name}={value}" for name, value in parameters)
        read = f"read_slang --top {top}{options} " + " ".join(map(str, sources))
        script = "\n".join([read, f"hierarchy -top {top}", *PASSES, *(SPLIT if split else ()), f"write_btor {target}"])
        command = [sys.executable, "-c", _YOSYS]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        if done.returncode or not target.is_file():
            raise RuntimeError(f"yosys could not read {top}: {(done.stderr or done.stdout)[-2000:]}")
        return target.read_text()


def _planted(sources: tuple[Path, ...], replace: tuple[str, str], folder: Path) -> tuple[Path, ...]:
    """``sources`` with a bug in one of them, which is written into ``folder``."""
    for index in reversed(range(len(sources))):
        text = sources[index].read_text()
        if replace[0] in text:
            planted = folder / sources[index].name
            planted.write_text(text.replace(*replace, 1))
            return (*sources[:index], planted, *sources[index + 1 :])
    raise AssertionError(f"no source contains {replace[0]!r}")


@dataclass(frozen=True)
class Node:
    """One line: operator, width of its value, and what follows."""

    op: str
    width: int
    arguments: tuple[str, ...]


class Circuit:
    """A parsed netlist."""

    def __init__(self, text: str) -> None:
        widths: dict[str, int] = {}
        self.nodes: dict[str, Node] = {}
        self.inputs: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.states: dict[str, str] = {}
        self.next: dict[str, str] = {}
        for line in text.splitlines():
            words = line.split(";")[0].split()
            if not words:
                continue
            number, op = words[0], words[1]
            if op == "sort":
                widths[number] = int(words[3])
            elif op == "output":
                self.outputs[words[-1]] = words[-2]
            elif op == "next":
                self.next[words[3]] = words[4]
            elif op not in ("bad", "constraint", "fair", "justice", "init"):
                self.nodes[number] = Node(op, widths[words[2]], tuple(words[3:]))
                if op in ("input", "state") and len(words) > 3:
                    (self.inputs if op == "input" else self.states)[words[3]] = number


    def multiplication(self, number: str) -> str | None:
        """The multiplication behind a register with enables that holds it or a part of it; None if there is none."""
        node = self.nodes[number.lstrip("-")]
        if node.op == "mul":
            return number
        words = {"ite": node.arguments[1:], "slice": node.arguments[:1]}.get(node.op, ())
        return next((found for word in words if (found := self.multiplication(word))), None)


class Unrolling:
    """Values of a circuit's nodes by cycle. Inputs are given per cycle; the first cycle's state is free or given."""

    def __init__(
        self, bits: Bits, circuit: Circuit, inputs: Callable[[str, int], Term], state: dict[str, Term] | None = None
    ) -> None:
        self.bits, self.circuit, self._inputs = bits, circuit, inputs
        self._memo: dict[tuple[str, int], Term] = {}
        self._names = {number: name for name, number in (circuit.inputs | circuit.states).items()}
        self._state = state or {}
        self.replace: dict[str, Callable[[Sequence[Term], int], Term]] = {}

    def output(self, name: str, cycle: int) -> Term:
        """The output ``name`` in ``cycle``."""
        return self.node(self.circuit.outputs[name], cycle)

    def state(self, name: str, cycle: int) -> Term:
        """The register ``name`` in ``cycle``."""
        return self.node(self.circuit.states[name], cycle)

    def set_state(self, name: str, cycle: int, value: Term) -> None:
        """Let the register ``name`` hold ``value`` in ``cycle``, whatever it was given before."""
        self.set_node(self.circuit.states[name], cycle, value)

    def set_node(self, number: str, cycle: int, value: Term) -> None:
        """Let a node have ``value`` in ``cycle``."""
        self._memo[number, cycle] = value

    def node(self, number: str, cycle: int) -> Term:
        """The value of a node; a negative number is its complement."""
        if number.startswith("-"):
            return self.bits.op(Kind.BV_NOT, self.node(number[1:], cycle))
        if (number, cycle) not in self._memo:
            self._memo[number, cycle] = self._compute(number, cycle)
        return self._memo[number, cycle]

    def _compute(self, number: str, cycle: int) -> Term:
        node, bits = self.circuit.nodes[number], self.bits
        if node.op == "input":
            return self._inputs(self._names[number], cycle)
        if node.op == "state":
            if cycle and number in self.circuit.next:
                return self.node(self.circuit.next[number], cycle - 1)
            name = self._names.get(number, f"state{number}")
            return self._state.get(name) or bits.var(node.width, f"{name}@{cycle}")
        if node.op in ("const", "constd", "consth"):
            base = {"const": 2, "constd": 10, "consth": 16}[node.op]
            return bits.const(node.width, int(node.arguments[0], base))
        if node.op in ("zero", "one", "ones"):
            return bits.const(node.width, {"zero": 0, "one": 1, "ones": -1}[node.op])
        return self._operator(number, node, cycle)

    def _operator(self, number: str, node: Node, cycle: int) -> Term:
        bits, words = self.bits, node.arguments
        if node.op == "ite":
            condition = self.node(words[0], cycle)
            if condition.is_value():
                return self.node(words[1] if int(condition.value(10)) else words[2], cycle)
            return bits.choose(condition, self.node(words[1], cycle), self.node(words[2], cycle))
        if node.op == "and" and node.width == 1:
            first = self.node(words[0], cycle)
            return (
                first if first.is_value() and not int(first.value(10)) else bits.both(first, self.node(words[1], cycle))
            )
        if node.op in ("slice", "uext", "sext"):
            value = self.node(words[0], cycle)
            if node.op == "slice":
                return bits.extract(value, int(words[1]), int(words[2]))
            return bits.extend(value, node.width, signed=node.op == "sext")
        values = [self.node(word, cycle) for word in words]
        if number in self.replace:
            return self.replace[number](values, cycle)
        if node.op in ("and", "or"):
            return bits.both(*values) if node.op == "and" else bits.either(*values)
        return bits.op((UNARY | BINARY)[node.op], *values)
