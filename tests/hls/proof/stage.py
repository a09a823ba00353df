"""One RTL module under proof: its inputs by cycle, its arrays by element, and what C++ says to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bitwuzla import Term
from hls.proof.bits import Bits
from hls.proof.btor import RTL, Circuit, Unrolling, netlist
from hls.proof.llvm_ir import Function

HEADS = 8
OP_FIELDS = {"last_half": 1, "last_part": 1, "first_part": 1, "m1": 8, "m0": 8, "token": 5, "x_bank": 2}
OP_FIELDS |= {"coefficient": 2, "phase": 1, "half": 1, "chunk": 2}
"""Fields of the RTL's op_t with their widths, from bit 0 upwards."""


class Stage:
    """A module unrolled from an arbitrary state. What is not said of an input is free, in every cycle anew."""

    def __init__(
        self,
        top: str,
        *files: str,
        parameters: Mapping[str, int] | None = None,
        replace: tuple[str, str] | None = None,
        split: bool = False,
    ) -> None:
        """``files`` are the modules that ``top`` needs; ``replace`` and ``split``: see ``btor.netlist``."""
        sources = tuple(RTL / f"{name}.sv" for name in ("nearkv_pkg", *files, top))
        self.bits = Bits()
        self.circuit = Circuit(netlist(top, sources, tuple((parameters or {}).items()), replace, split))
        self.fixed: dict[str, Term] = {"rst_n": self.bits.const(1, 1)}
        self.given: dict[tuple[str, int], Term] = {}
        self.rtl = Unrolling(self.bits, self.circuit, self._input)

    def _input(self, name: str, cycle: int) -> Term:
        if (name, cycle) in self.given:
            return self.given[name, cycle]
        if name in self.fixed:
            return self.fixed[name]
        width = self.circuit.nodes[self.circuit.inputs[name]].width
        return self.given.setdefault((name, cycle), self.bits.var(width, f"{name}@{cycle}"))

    def fix(self, **inputs: int) -> None:
        """Give inputs a number in every cycle."""
        for name, number in inputs.items():
            self.fixed[name] = self.bits.const(self.circuit.nodes[self.circuit.inputs[name]].width, number)

    def give(self, cycle: int, **inputs: int | Term) -> None:
        """Give inputs a number or a term in one cycle."""
        for name, value in inputs.items():
            width = self.circuit.nodes[self.circuit.inputs[name]].width
            self.given[name, cycle] = value if isinstance(value, Term) else self.bits.const(width, value)

    def input(self, name: str, cycle: int, head: int | None = None, count: int = HEADS) -> Term:
        """An input, or one element of an array of ``count``."""
        whole = self._input(name, cycle)
        return whole if head is None else self.element(whole, head, count)

    def element(self, array: Term, index: int, count: int = HEADS) -> Term:
        """One element of an unpacked array; element 0 lies highest."""
        width = self.bits.width(array) // count
        low = (count - 1 - index) * width
        return self.bits.extract(array, low + width - 1, low)

    def lane(self, array: Term, index: int, width: int) -> Term:
        """One element, ``width`` bits wide, of a packed array; element 0 lies lowest."""
        return self.bits.extract(array, width * index + width - 1, width * index)

    def array(self, elements: Sequence[Term]) -> Term:
        """An unpacked array of ``elements``."""
        return self.bits.concat(elements)

    def op(self, **fields: int | Term) -> Term:
        """An op_t with these fields; the others are free."""
        parts = []
        for name, width in OP_FIELDS.items():
            value = fields.get(name)
            if value is None:
                value = self.bits.var(width, f"op.{name}")
            parts.append(value if isinstance(value, Term) else self.bits.const(width, value))
        return self.bits.concat(parts[::-1])

    def cpp(self, name: str, *arguments: Term | int | Sequence[Term], widths: Sequence[int], signed: str = "") -> Term:
        """Call the C++ function ``name`` with each argument brought to its width; the letter s marks a signed one."""
        signs = signed.ljust(len(arguments), "u")
        brought: list[Term | Sequence[Term]] = []
        for argument, width, sign in zip(arguments, widths, signs, strict=True):
            if isinstance(argument, int):
                brought.append(self.bits.const(width, argument))
            elif isinstance(argument, Term):
                brought.append(self.bits.extend(argument, width, signed=sign == "s"))
            else:
                brought.append(argument)
        return Function(self.bits, f"nearkv_{name}")(*brought)

    def equal(self, rtl: Term, cpp: Term, *, signed: bool = True, assume: Sequence[Term] = ()) -> None:
        """Prove that the RTL's vector, extended to the C++ type's width, is the C++ value under ``assume``."""
        pair = (self.bits.extend(rtl, self.bits.width(cpp), signed=signed), cpp)
        difference = self.bits.find_difference([pair], assume)
        assert difference is None, f"they differ for {difference}"


def word(bits: Bits, memory: Sequence[Term], index: int) -> Term:
    """The 32-bit word ``index`` of bytes that a C++ function stored."""
    return bits.concat(memory[4 * index : 4 * index + 4][::-1])


def octets(bits: Bits, term: Term) -> list[Term]:
    """The bytes of ``term``, lowest first: memory for a C++ function."""
    return [bits.extract(term, 8 * i + 7, 8 * i) for i in range(bits.width(term) // 8)]
