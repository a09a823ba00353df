"""A normal form for what is linear over bits: each output bit as the parity of free bits, in one order.

Two parities over the same bits are hard for a solver and equal at sight once they are sorted. CRCs are such functions.
"""

from __future__ import annotations

from bitwuzla import Kind, Term
from hls.proof.bits import Bits

MOST_TABLE_BITS = 6
"""Inputs of a look-up in a constant, which is how C++ writes the parity of a few bits."""


class Affine:
    """Bits as sets of free bits (numbers, bit i for free bit i); free bit 0 is the constant 1."""

    def __init__(self, bits: Bits) -> None:
        self.bits = bits
        self._free: list[tuple[Term, int]] = [(bits.const(1, 1), 0)]
        self._memo: dict[int, tuple[Term, list[int]]] = {}

    def normal(self, term: Term) -> Term:
        """``term`` with every bit written as a sorted parity; what is not linear below it counts as free."""
        return self.bits.concat([self._parity(row) for row in self.rows(term)[::-1]])

    def _parity(self, row: int) -> Term:
        whole = self.bits.const(1, 0)
        while row:
            low = row & -row
            term, bit = self._free[low.bit_length() - 1]
            whole = self.bits.op(Kind.BV_XOR, whole, self.bits.extract(term, bit, bit))
            row ^= low
        return whole

    def rows(self, term: Term) -> list[int]:
        """The set of free bits of each bit of ``term``, lowest bit first."""
        todo = [term]
        while todo:
            top = todo[-1]
            missing = [child for child in top.children() if child.id() not in self._memo]
            if missing and top.id() not in self._memo:
                todo += missing
                continue
            todo.pop()
            if top.id() not in self._memo:  # the term is kept with its rows: a freed one's number comes back
                self._memo[top.id()] = (top, self._rows(top))
        return self._memo[term.id()][1]

    def _rows(self, term: Term) -> list[int]:
        if term.sort().is_bool():
            return []
        kind, width = term.kind(), self.bits.width(term)
        if term.is_value():
            number = int(term.value(10))
            return [number >> i & 1 for i in range(width)]
        below = [self._memo[child.id()][1] for child in term.children()]
        if kind == Kind.BV_XOR:
            return [a ^ b for a, b in zip(*below, strict=True)]
        if kind == Kind.BV_NOT:
            return [row ^ 1 for row in below[0]]
        if kind == Kind.BV_CONCAT:
            return [row for rows in below[::-1] for row in rows]
        if kind == Kind.BV_EXTRACT:
            high, low = (int(index) for index in term.indices())
            return below[0][low : high + 1]
        if kind in (Kind.BV_ZERO_EXTEND, Kind.BV_SIGN_EXTEND):
            fill = below[0][-1] if kind == Kind.BV_SIGN_EXTEND else 0
            return below[0] + [fill] * (width - len(below[0]))
        if kind == Kind.BV_REDXOR:
            parity = 0
            for row in below[0]:
                parity ^= row
            return [parity]
        return self._of_one_operand(term, kind, below) or [self._new(term, i) for i in range(width)]

    def _of_one_operand(self, term: Term, kind: Kind, below: list[list[int]]) -> list[int] | None:
        """Operators that are linear where one operand is a number."""
        if kind in (Kind.BV_AND, Kind.BV_OR) and all(a < 2 or b < 2 for a, b in zip(*below, strict=True)):
            return [self._and(a, b) if kind == Kind.BV_AND else 1 ^ self._and(1 ^ a, 1 ^ b)
                    for a, b in zip(*below, strict=True)]  # fmt: skip
        if kind == Kind.BV_SHR and all(row < 2 for row in below[0]):
            rows = [self._table(below[0], below[1], i) for i in range(len(below[0]))]
            return [self._new(term, i) if row is None else row for i, row in enumerate(rows)]
        return None

    @staticmethod
    def _and(a: int, b: int) -> int:
        return (b if a else 0) if a < 2 else (a if b else 0)

    @staticmethod
    def _table(table: list[int], index: list[int], bit: int) -> int | None:
        """Bit ``bit`` of a constant shifted right by ``index``, where that is a parity of the index's bits."""
        inputs = [(place, row) for place, row in enumerate(index) if row > 1]
        base = sum(1 << place for place, row in enumerate(index) if row == 1)
        if len(inputs) > MOST_TABLE_BITS:
            return None

        def value(subset: int) -> int:
            shift = bit + base + sum(1 << place for i, (place, _) in enumerate(inputs) if subset >> i & 1)
            return table[shift] if shift < len(table) else 0

        chosen = [i for i in range(len(inputs)) if value(1 << i) != value(0)]
        for subset in range(1 << len(inputs)):
            if value(subset) != value(0) ^ (sum(subset >> i & 1 for i in chosen) & 1):
                return None
        whole = value(0)
        for i in chosen:
            whole ^= inputs[i][1]
        return whole

    def _new(self, term: Term, bit: int) -> int:
        self._free.append((term, bit))
        return 1 << (len(self._free) - 1)
