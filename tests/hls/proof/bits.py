"""Bit vectors of a solver, with just enough folding of constants that pipelines unroll to their cone of influence."""

from __future__ import annotations

from collections.abc import Sequence

from bitwuzla import Bitwuzla, Kind, Option, Options, Result, Term, TermManager

SHIFTS = (Kind.BV_SHL, Kind.BV_SHR, Kind.BV_ASHR)


class Bits:
    """Builds bit-vector terms; truth values are vectors of one bit."""

    def __init__(self) -> None:
        self.manager = TermManager()
        options = Options()
        options.set(Option.PRODUCE_MODELS, True)
        self._evaluator = Bitwuzla(self.manager, options)
        self._evaluator.check_sat()  # of nothing: from then on it gives every closed term its value
        self._variables: dict[str, Term] = {}
        self._known: dict[tuple[int, int], tuple[Term, Term]] = {}
        self.abstract_products = False
        """Whether a product of the same two operands is a free vector instead, one and the same wherever it occurs."""
        self._abstract: dict[tuple[int, ...], tuple[Term, list[Term]]] = {}

    def const(self, width: int, value: int) -> Term:
        """The number ``value`` modulo 2^``width``."""
        return self.manager.mk_bv_value(self.manager.mk_bv_sort(width), value % (1 << width))

    def var(self, width: int, name: str) -> Term:
        """The free vector ``name``, the same one whenever it is asked for."""
        if name not in self._variables:
            self._variables[name] = self.manager.mk_const(self.manager.mk_bv_sort(width), name)
        return self._variables[name]

    def width(self, term: Term) -> int:
        """Bits of ``term``."""
        return int(term.sort().bv_size())

    def op(self, kind: Kind, *terms: Term, indices: Sequence[int] = ()) -> Term:
        """``kind`` applied to ``terms``, folded where all of them are numbers."""
        if kind == Kind.BV_MUL:
            return self._product(*terms)
        if kind == Kind.BV_CONCAT:
            return self._concat(*terms)
        if kind == Kind.BV_ADD:
            return self._sum(terms)
        if kind in SHIFTS and terms[1].is_value():
            return self._shift(kind, terms[0], int(terms[1].value(10)))
        if kind == Kind.BV_AND and (mask := next((t for t in terms if t.is_value()), None)) is not None:
            ones = int(mask.value(10)).bit_length()
            if int(mask.value(10)) == (1 << ones) - 1 and 0 < ones < self.width(mask):
                kept = terms[1] if mask is terms[0] else terms[0]
                return self.extend(self.extract(kept, ones - 1, 0), self.width(mask), signed=False)
        return self._make(kind, *terms, indices=indices)

    def _make(self, kind: Kind, *terms: Term, indices: Sequence[int] = ()) -> Term:
        made = self.manager.mk_term(kind, list(terms), list(indices))
        if made.sort().is_bool():
            one, zero = self.const(1, 1), self.const(1, 0)
            made = self.manager.mk_term(Kind.ITE, [made, one, zero])
        return self._evaluator.get_value(made) if all(t.is_value() for t in terms) else made

    def _product(self, a: Term, b: Term) -> Term:
        """a * b over the shortest operands, so that one product has one shape whatever widths it was written in.

        Extended operands of p and q bits have an exact product of p + q bits; zeros below an operand go below the
        product.
        """
        width = self.width(a)
        (a, a_signed, a_zeros), (b, b_signed, b_zeros) = self._core(a), self._core(b)
        exact = min(width, self.width(a) + self.width(b))
        operands = sorted(
            (self.extend(a, exact, signed=a_signed), self.extend(b, exact, signed=b_signed)), key=lambda t: t.id()
        )
        if self.abstract_products and not any(t.is_value() for t in operands):
            key = tuple(t.id() for t in operands)
            # The operands are kept, too: a term that nobody holds is freed, and comes back with another number.
            product, _ = self._abstract.setdefault(key, (self.var(exact, f"product{len(self._abstract)}"), operands))
        else:
            product = self._make(Kind.BV_MUL, *operands)
        whole = self.extend(product, width, signed=a_signed or b_signed)
        return self._shift(Kind.BV_SHL, whole, a_zeros + b_zeros)

    def _sum(self, terms: Sequence[Term]) -> Term:
        """Addends flattened and in one order, so that equal sums look equal however they were bracketed."""
        addends: list[Term] = []
        todo = list(terms)
        while todo:
            term = todo.pop()
            if term.kind() == Kind.BV_ADD:
                todo += term.children()
            elif not (term.is_value() and int(term.value(10)) == 0):
                addends.append(term)
        if not addends:
            return terms[0]
        addends.sort(key=lambda t: self._core(t)[0].id())
        whole = addends[0]
        for addend in addends[1:]:
            whole = self._make(Kind.BV_ADD, whole, addend)
        return whole

    def use_sign_extension(self, term: Term, extended: Term) -> None:
        """From now on let ``extended``, which was proved equal, stand for the sign extension of ``term``."""
        self._known[term.id(), self.width(extended)] = (extended, term)

    def products(self) -> list[Term]:
        """The free vectors that stand for products."""
        return [product for product, _ in self._abstract.values()]

    def _core(self, term: Term) -> tuple[Term, bool, int]:
        """What ``term`` extends, whether by its sign, and how many zeros lie below it."""
        kind = term.kind()
        if kind == Kind.BV_SIGN_EXTEND:
            core, signed, zeros = self._core(term.children()[0])
            return core, signed, zeros
        if kind == Kind.BV_ZERO_EXTEND:
            return term.children()[0], False, 0
        if kind == Kind.BV_CONCAT:
            high, low = term.children()
            if high.is_value() and int(high.value(10)) == 0:
                return low, False, 0
            if low.is_value() and int(low.value(10)) == 0:
                return high, True, self.width(low)
        return term, True, 0

    def _shift(self, kind: Kind, term: Term, amount: int) -> Term:
        """A shift by a constant, as extractions, extensions and concatenations."""
        width = self.width(term)
        if amount == 0:
            return term
        if amount >= width:
            if kind != Kind.BV_ASHR:
                return self.const(width, 0)
            amount = width - 1
        if kind == Kind.BV_SHL and term.kind() == Kind.BV_ADD:
            return self._sum([self._shift(kind, part, amount) for part in term.children()])
        if kind == Kind.BV_SHL:
            return self.concat([self.extract(term, width - 1 - amount, 0), self.const(amount, 0)])
        return self.extend(self.extract(term, width - 1, amount), width, signed=kind == Kind.BV_ASHR)

    def both(self, a: Term, b: Term) -> Term:
        """Bitwise and; all zeros and all ones decide at once."""
        for this, other in ((a, b), (b, a)):
            if this.is_value() and (number := int(this.value(10))) in (0, (1 << self.width(this)) - 1):
                return other if number else this
        return self.op(Kind.BV_AND, a, b)

    def either(self, a: Term, b: Term) -> Term:
        """Bitwise or; all zeros and all ones decide at once."""
        for this, other in ((a, b), (b, a)):
            if this.is_value() and (number := int(this.value(10))) in (0, (1 << self.width(this)) - 1):
                return this if number else other
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
            if low >= self.width(core) and kind == Kind.BV_ZERO_EXTEND:
                return self.const(high - low + 1, 0)
            if low >= self.width(core):
                return self.extend(self.sign(core), high - low + 1, signed=True)
            inner = self.extract(core, min(high, self.width(core) - 1), low)
            return self.extend(inner, high - low + 1, signed=kind == Kind.BV_SIGN_EXTEND)
        if kind == Kind.BV_CONCAT:
            upper, lower = term.children()
            border = self.width(lower)
            if low >= border:
                return self.extract(upper, high - border, low - border)
            if high < border:
                return self.extract(lower, high, low)
            return self.concat([self.extract(upper, high - border, 0), self.extract(lower, border - 1, low)])
        if kind == Kind.BV_ADD and low == 0:
            return self._sum([self.extract(child, high, 0) for child in term.children()])
        if kind in (Kind.BV_AND, Kind.BV_OR):
            parts = [self.extract(child, high, low) for child in term.children()]
            return self.both(*parts) if kind == Kind.BV_AND else self.either(*parts)
        if kind == Kind.BV_EXTRACT:
            base = int(term.indices()[1])
            return self.extract(term.children()[0], base + high, base + low)
        return self._make(Kind.BV_EXTRACT, term, indices=(high, low))

    def extend(self, term: Term, width: int, *, signed: bool) -> Term:
        """``term`` in ``width`` bits: extended, or cut where it is longer."""
        more = width - self.width(term)
        if more <= 0:
            return self.extract(term, width - 1, 0)
        if signed and (term.id(), width) in self._known:
            return self._known[term.id(), width][0]
        kind = Kind.BV_SIGN_EXTEND if signed else Kind.BV_ZERO_EXTEND
        if term.kind() == Kind.BV_ZERO_EXTEND:  # its sign bit is 0
            term, kind = term.children()[0], Kind.BV_ZERO_EXTEND
        elif term.kind() == kind:
            return self.extend(term.children()[0], width, signed=signed)
        return self._make(kind, term, indices=(width - self.width(term),))

    def sign(self, term: Term) -> Term:
        """The top bit."""
        top = self.width(term) - 1
        return self.extract(term, top, top)

    def _concat(self, high: Term, low: Term) -> Term:
        """Two parts joined; a repeated sign is an extension, neighbouring extractions are one."""
        if self.width(high) == 1 and high == self.sign(low):
            return self.extend(low, self.width(low) + 1, signed=True)
        if high.kind() == low.kind() == Kind.BV_EXTRACT and high.children()[0] == low.children()[0]:
            (top, border), (below, bottom) = high.indices(), low.indices()
            if int(border) == int(below) + 1:
                return self.extract(high.children()[0], int(top), int(bottom))
        return self._make(Kind.BV_CONCAT, high, low)

    def concat(self, parts: Sequence[Term]) -> Term:
        """``parts`` joined, the first one highest."""
        whole = parts[0]
        for part in parts[1:]:
            whole = self.op(Kind.BV_CONCAT, whole, part)
        return whole

    def pack(self, high: Term, low: Term, width: int = 36) -> Term:
        """high * 2^18 + low in ``width`` bits: two sums in one word."""
        shifted = self.op(Kind.BV_SHL, self.extend(high, width, signed=True), self.const(width, 18))
        return self.op(Kind.BV_ADD, shifted, self.extend(low, width, signed=True))

    def packed(self, low: Term, high: Term) -> tuple[Term, Term, Term]:
        """The word of two 18-bit sums, its upper part, and what that is worth in 20 bits."""
        upper = self.op(Kind.BV_ADD, high, self.extend(self.sign(low), 18, signed=True))
        wide = self.op(Kind.BV_ADD, self.extend(high, 20, signed=True), self.extend(self.sign(low), 20, signed=True))
        return self.concat([upper, low]), upper, wide

    def within(self, term: Term, bound: int) -> Term:
        """A bit: -bound <= term <= bound."""
        width = self.width(term)
        low = self.op(Kind.BV_SGE, term, self.const(width, -bound))
        return self.both(low, self.op(Kind.BV_SLE, term, self.const(width, bound)))

    def find_difference(self, pairs: Sequence[tuple[Term, Term]], assume: Sequence[Term] = ()) -> dict[str, int] | None:
        """Values of the free vectors under which some pair differs while every bit of ``assume`` is 1, or None."""
        options = Options()
        options.set(Option.PRODUCE_MODELS, True)
        solver = Bitwuzla(self.manager, options)
        for bit in assume:
            solver.assert_formula(self.manager.mk_term(Kind.EQUAL, [bit, self.const(1, 1)]))
        differ = [self.manager.mk_term(Kind.DISTINCT, [a, b]) for a, b in pairs]
        solver.assert_formula(differ[0] if len(differ) == 1 else self.manager.mk_term(Kind.OR, differ))
        if solver.check_sat() == Result.UNSAT:
            return None
        terms = [term for pair in pairs for term in pair]
        return {v.symbol(): int(solver.get_value(v).value(10)) for v in _variables(terms)}


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
