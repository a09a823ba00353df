"""Bit vectors of a solver, with just enough folding of constants that pipelines unroll to their cone of influence."""

from __future__ import annotations

from collections.abc import Sequence

from bitwuzla import Bitwuzla, Kind, Option, Options, Result, Term, TermManager


class Bits:
    """Builds bit-vector terms; truth values are vectors of one bit."""

    def __init__(self) -> None:
        self.manager = TermManager()
        options = Options()
        options.set(Option.PRODUCE_MODELS, True)
        self._evaluator = Bitwuzla(self.manager, options)
        self._evaluator.check_sat()  # of nothing: from then on it gives every closed term its value

    def const(self, width: int, value: int) -> Term:
        """The number ``value`` modulo 2^``width``."""
        return self.manager.mk_bv_value(self.manager.mk_bv_sort(width), value % (1 << width))

    def var(self, width: int, name: str) -> Term:
        """A free vector."""
        return self.manager.mk_const(self.manager.mk_bv_sort(width), name)

    def width(self, term: Term) -> int:
        """Bits of ``term``."""
        return int(term.sort().bv_size())

    def op(self, kind: Kind, *terms: Term, indices: Sequence[int] = ()) -> Term:
        """``kind`` applied to ``terms``, folded where all of them are numbers."""
        if kind == Kind.BV_MUL:
            return self._product(*terms)
        if kind == Kind.BV_ASHR and (made := self._sign_extension(*terms)) is not None:
            return made
        return self._make(kind, *terms, indices=indices)

    def _make(self, kind: Kind, *terms: Term, indices: Sequence[int] = ()) -> Term:
        made = self.manager.mk_term(kind, list(terms), list(indices))
        if made.sort().is_bool():
            one, zero = self.const(1, 1), self.const(1, 0)
            made = self.manager.mk_term(Kind.ITE, [made, one, zero])
        return self._evaluator.get_value(made) if all(t.is_value() for t in terms) else made

    def _product(self, a: Term, b: Term) -> Term:
        """a * b over the shortest operands, so that one product has one shape whatever widths it was written in.

        Extended operands of p and q bits have an exact product of p + q bits (one more where the signs differ in kind);
        a left shift by a constant commutes with the product.
        """
        width = self.width(a)
        for this, other in ((a, b), (b, a)):
            if this.kind() == Kind.BV_SHL and this.children()[1].is_value():
                return self._make(Kind.BV_SHL, self._product(this.children()[0], other), this.children()[1])
        (a, a_signed), (b, b_signed) = self._core(a), self._core(b)
        exact = min(width, self.width(a) + self.width(b))
        operands = sorted(
            (self.extend(a, exact, signed=a_signed), self.extend(b, exact, signed=b_signed)), key=lambda t: t.id()
        )
        return self.extend(self._make(Kind.BV_MUL, *operands), width, signed=a_signed or b_signed)

    def _core(self, term: Term) -> tuple[Term, bool]:
        """What ``term`` extends, and whether by its sign."""
        kind = term.kind()
        if kind == Kind.BV_SIGN_EXTEND:
            core, signed = self._core(term.children()[0])
            return (core, signed) if signed or core != term.children()[0] else (term.children()[0], True)
        if kind == Kind.BV_ZERO_EXTEND:
            core = term.children()[0]
            return (core, False)
        if kind == Kind.BV_CONCAT and (high := term.children()[0]).is_value() and int(high.value(10)) == 0:
            return (term.children()[1], False)
        return (term, True)

    def _sign_extension(self, term: Term, amount: Term) -> Term | None:
        """(y << a) >> b, as compilers write sign extensions, for constants a and b."""
        if term.kind() != Kind.BV_SHL or not term.children()[1].is_value() or not amount.is_value():
            return None
        width = self.width(term)
        value, left = term.children()[0], int(term.children()[1].value(10))
        right = int(amount.value(10))
        if left >= width or right >= width:
            return None
        kept = self.extract(value, width - 1 - left, max(0, right - left))
        extended = self.extend(kept, width, signed=True)
        more = self.const(width, left - right)
        return self._make(Kind.BV_SHL, extended, more) if left > right else extended

    def both(self, a: Term, b: Term) -> Term:
        """Bitwise and; zero wins at once."""
        for this, other in ((a, b), (b, a)):
            if this.is_value() and self.width(this) == 1:
                return other if int(this.value(10)) else this
        return self.op(Kind.BV_AND, a, b)

    def either(self, a: Term, b: Term) -> Term:
        """Bitwise or; a one-bit one wins at once."""
        for this, other in ((a, b), (b, a)):
            if this.is_value() and self.width(this) == 1:
                return this if int(this.value(10)) else other
        return self.op(Kind.BV_OR, a, b)

    def choose(self, condition: Term, then: Term, otherwise: Term) -> Term:
        """``then`` where the bit ``condition`` is 1."""
        if condition.is_value():
            return then if int(condition.value(10)) else otherwise
        if then == otherwise:
            return then
        true = self.manager.mk_term(Kind.EQUAL, [condition, self.const(1, 1)])
        return self.manager.mk_term(Kind.ITE, [true, then, otherwise])

    def extract(self, term: Term, high: int, low: int) -> Term:
        """Bits ``high`` down to ``low``, taken from below extensions, concatenations and extractions."""
        width = self.width(term)
        if (high, low) == (width - 1, 0):
            return term
        kind = term.kind()
        if kind in (Kind.BV_SIGN_EXTEND, Kind.BV_ZERO_EXTEND):
            core = term.children()[0]
            if low < self.width(core):
                inner = self.extract(core, min(high, self.width(core) - 1), low)
                return self.extend(inner, high - low + 1, signed=kind == Kind.BV_SIGN_EXTEND)
        if kind == Kind.BV_CONCAT:
            upper, lower = term.children()
            border = self.width(lower)
            if low >= border:
                return self.extract(upper, high - border, low - border)
            if high < border:
                return self.extract(lower, high, low)
        if kind == Kind.BV_EXTRACT:
            base = int(term.indices()[1])
            return self.extract(term.children()[0], base + high, base + low)
        return self._make(Kind.BV_EXTRACT, term, indices=(high, low))

    def extend(self, term: Term, width: int, *, signed: bool) -> Term:
        """``term`` in ``width`` bits: extended, or cut where it is longer."""
        more = width - self.width(term)
        if more <= 0:
            return self.extract(term, width - 1, 0)
        kind = Kind.BV_SIGN_EXTEND if signed else Kind.BV_ZERO_EXTEND
        if term.kind() == Kind.BV_ZERO_EXTEND:  # its sign bit is 0
            term, kind = term.children()[0], Kind.BV_ZERO_EXTEND
        elif term.kind() == kind:
            term = term.children()[0]
        return self._make(kind, term, indices=(width - self.width(term),))

    def concat(self, parts: Sequence[Term]) -> Term:
        """``parts`` joined, the first one highest."""
        whole = parts[0]
        for part in parts[1:]:
            whole = self.op(Kind.BV_CONCAT, whole, part)
        return whole

    def find_difference(
        self, pairs: Sequence[tuple[Term, Term]], assume: Sequence[Term] = (), seconds: int = 300
    ) -> dict[str, int] | None:
        """Values of the free vectors under which some pair differs while every bit of ``assume`` is 1; None if none do.

        Raises TimeoutError where the solver gives up.
        """
        options = Options()
        options.set(Option.PRODUCE_MODELS, True)
        options.set(Option.TIME_LIMIT_PER, 1000 * seconds)
        solver = Bitwuzla(self.manager, options)
        for bit in assume:
            solver.assert_formula(self.manager.mk_term(Kind.EQUAL, [bit, self.const(1, 1)]))
        differ = [self.manager.mk_term(Kind.DISTINCT, [a, b]) for a, b in pairs]
        solver.assert_formula(differ[0] if len(differ) == 1 else self.manager.mk_term(Kind.OR, differ))
        result = solver.check_sat()
        if result == Result.UNSAT:
            return None
        if result != Result.SAT:
            raise TimeoutError(f"the solver gave up after {seconds} s")
        return {v.symbol(): int(solver.get_value(v).value(10)) for v in _variables([t for pair in pairs for t in pair])}


def _variables(terms: Sequence[Term]) -> list[Term]:
    """The free vectors below ``terms``."""
    seen: set[int] = set()
    found, todo = [], list(terms)
    while todo:
        term = todo.pop()
        if term.id() in seen:
            continue
        seen.add(term.id())
        if term.is_const():
            found.append(term)
        todo += term.children()
    return found
