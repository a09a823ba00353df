"""The datapath composed: a whole score block through the RTL's ``nkv_score`` is the chain of the C++ stages.

From the bytes of header, payload, queries and coefficients to the log-masses that leave: lanes, packed products, adder
tree, scale, block maximum, addends, sum, logarithm, and the CRC that decides whether any of it counts. The steps are
those of test_equivalence*.py, here on one unrolling of the whole module, so that what a stage hands to the next, and
when, is proved, too. Run with ``-rP`` for the queries and their times.
"""

from __future__ import annotations

import re

import pytest
from bitwuzla import Kind, Term
from hls.proof.affine import Affine
from hls.proof.block import FIRST_PASS, GROUP, HEADER, Block
from hls.proof.llvm_ir import compiler
from hls.proof.stage import word

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="no clang++ on the PATH to lower the C++ with"),
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("deep_recursion"),
]

LANES, QUADS = 64, 16
MULTIPLIER = r"mac\.g_pair\[0\]\.g_quad\[(\d+)\]\.quad_products\.g_lane\[(\d)\]\.multiply_(even|odd)\.product"
QUAD_SUM = "mac.g_pair[0].g_quad[{}].quad_products.sum"
PEAK_REGISTER = "block_scores.peak[0]"
PRODUCT, QUAD, QUARTER, DOT, SCORE, PEAK = 2, 3, 4, 6, 10, 12
"""Cycles from a pass until its registers hold it."""


class Chain(Block):
    """Proves one block step by step; each method takes over what the one before it left."""

    def prove_all(self) -> None:
        """Everything, in the order in which data pass."""
        self.words_hold_two_sums()
        self.scores = [[None] * self.tokens for _ in range(GROUP)]
        for number in range(-(-self.tokens // self.slots)):
            self.one_pass(number)
        last = FIRST_PASS + self.beats - 1
        peaks = self.maxima(last + PEAK)
        sums = [self.sum(head, peaks[head], last + PEAK + 2) for head in range(GROUP)]
        sound = self.crc()
        masses = self.masses()
        assert len(masses) == GROUP
        for head, record in enumerate(masses):
            self.log_mass(head, record, peaks[head], sums[head], sound)

    # ---- products and sums -----------------------------------------------------------------------

    def words_hold_two_sums(self) -> None:
        """For all sums of four lanes: they fit, and what a packed word of two of them looks like."""
        bits = self.bits
        low, high = bits.var(36, "any_low"), bits.var(36, "any_high")
        fits = bits.op(Kind.EQUAL, low, bits.extend(bits.extract(low, 17, 0), 36, signed=True))
        narrow = [bits.extract(word, 17, 0) for word in (low, high)]
        packed, upper, wide = self.bits.packed(*narrow)
        shifted = bits.op(Kind.BV_SHL, high, bits.const(36, 18))
        self.prove("a packed word, taken apart", [(bits.op(Kind.BV_ADD, shifted, low), packed)], [fits])
        room = bits.op(Kind.DISTINCT, narrow[1], bits.const(18, 1 << 17))  # the lowest of all is never met: below
        self.prove("the upper sum with its borrow", [(bits.extend(upper, 20, signed=True), wide)], [room])
        self.sums_are_small()

    def sums_are_small(self) -> None:
        """The C++ sum of four lanes lies within 2^16, whatever the queries and keys."""
        bits, width = self.bits, 4 if self.int4 else 8
        q = [[bits.var(8, f"any_{side}{lane}") for lane in range(4)] for side in ("even", "odd")]
        even = [bits.extend(bits.var(width, f"any_key{lane}"), 8, signed=True) for lane in range(4)]
        odd = [bits.extend(bits.var(4, f"any_odd{lane}"), 8, signed=True) for lane in range(4)]
        before = len(bits.products())
        total = self.stage.cpp("dot4", *q, even, odd if self.int4 else [bits.const(8, 0)] * 4, widths=(8,) * 4)
        products = bits.products()[before:]
        bits.abstract_products = False
        wide = [bits.extend(bits.var(bound, name), 16, signed=True) for bound, name in ((8, "any_q"), (width, "any_k"))]
        product = bits.op(Kind.BV_MUL, *wide)
        bits.abstract_products = True
        bound, one = 1 << (6 + width), bits.const(1, 1)
        self.prove("a product is small", [(self.bits.within(product, bound), one)])
        assume = [self.bits.within(product, bound) for product in products]
        narrow = bits.extend(bits.extract(total, 17, 0), 32, signed=True)
        self.prove("a sum of four lanes is small", [(self.bits.within(total, 1 << 16), one), (narrow, total)], assume)

    def lanes(self, number: int) -> tuple[list[Term], list[Term], list[list[Term]], list[list[Term]]]:
        """Keys of a pass by lane (even, odd), by C++, and the queries' by head: neighbours share a lane in INT4."""
        zero = self.bits.const(8, 0)
        even, odd = [zero] * LANES, [zero] * LANES
        self.stage.cpp("unpack", self.payload[number], self.int4, even, odd, widths=(8, 8, 8, 8))
        if self.int4:
            q_even, q_odd = ([[q[2 * (i % 32) + side] for i in range(LANES)] for q in self.queries] for side in (0, 1))
        else:
            q_even, q_odd = self.queries, [[zero] * LANES] * GROUP
        return even, odd, q_even, q_odd

    def one_pass(self, number: int) -> None:
        """A payload beat: products, quads, quarters, slots, scores."""
        cycle = FIRST_PASS + number
        even, odd, q_even, q_odd = self.lanes(number)
        operands, products = self.share_products(cycle + PRODUCT - 1, even, odd, q_even, q_odd)
        self.prove(f"beat {number}: multipliers' operands", operands)
        for i in range(QUADS):
            quarter = slice(4 * i, 4 * i + 4)
            sums = [
                self.stage.cpp("dot4", *(lanes[quarter] for lanes in (q_even[h], q_odd[h], even, odd)), widths=(8,) * 4)
                for h in range(GROUP)
            ]
            self.quad(number, i, products[i], sums)
        free = [[self.bits.var(18, f"quad{i}@{cycle}.{h}") for i in range(QUADS)] for h in range(GROUP)]
        for i in range(QUADS):
            packed, upper, wide = self.bits.packed(free[0][i], free[1][i])
            self.bits.use_sign_extension(upper, wide)
            self.rtl.set_state(QUAD_SUM.format(i), cycle + QUAD, packed)
        for head in range(GROUP):
            self.rows(number, head, self.quarters(number, head, free[head]))

    def quad(self, number: int, i: int, products: list[list[Term]], sums: list[Term]) -> None:
        """The register of four lanes is the packed word of the C++ sums of both heads (``words_hold_two_sums``)."""
        bits = self.bits
        low, high = (self.total(products, head) for head in range(GROUP))
        shifted = bits.op(Kind.BV_SHL, high, bits.const(36, 18))
        register = self.rtl.state(QUAD_SUM.format(i), FIRST_PASS + number + QUAD)
        narrow = [bits.extract(word, 17, 0) for word in (low, high)]
        pairs = [(register, bits.op(Kind.BV_ADD, shifted, low)), (low, bits.extend(narrow[0], 36, signed=True))]
        pairs += [(narrow[h], bits.extract(sums[h], 17, 0)) for h in range(GROUP)]
        self.prove(f"beat {number}: lanes {4 * i} to {4 * i + 3}", pairs)

    def total(self, products: list[list[Term]], head: int) -> Term:
        """A head's products, added in a packed word's width."""
        return self.bits.op(Kind.BV_ADD, *(self.bits.extend(pair[head], 36, signed=True) for pair in products))

    def share_products(
        self, cycle: int, even: list[Term], odd: list[Term], q_even: list[list[Term]], q_odd: list[list[Term]]
    ) -> tuple[list[tuple[Term, Term]], list[list[list[Term]]]]:
        """Let each multiplier's product be that of both heads: (a 2^18 + b) k = a k 2^18 + b k in the ring of words.

        Returns what that needs (the multiplier's operands are the packed heads and the key), and the products of both
        heads by quad.
        """
        bits, circuit = self.bits, self.stage.circuit
        pairs: list[tuple[Term, Term]] = []
        by_quad: list[list[list[Term]]] = [[] for _ in range(QUADS)]
        for name, state in circuit.states.items():
            if not (found := re.fullmatch(MULTIPLIER, name)):
                continue
            lane = 4 * int(found[1]) + int(found[2])
            keys, queries = (even, q_even) if found[3] == "even" else (odd, q_odd)
            if found[3] == "odd" and not self.int4:
                continue
            key, heads = keys[lane], [queries[h][lane] for h in (1, 0)]
            node = circuit.multiplication(circuit.next[state])
            assert node is not None, f"{name} registers no product"
            values = [self.rtl.node(number, cycle) for number in circuit.nodes[node].arguments]
            width = bits.width(values[0])
            pairs += [(values[0], self.bits.pack(*heads, width)), (values[1], bits.extend(key, width, signed=True))]
            wide = bits.extend(key, 16, signed=True)
            products = [bits.op(Kind.BV_MUL, bits.extend(q, 16, signed=True), wide) for q in heads]
            self.rtl.set_node(node, cycle, self.bits.pack(*products, width))
            by_quad[lane // 4].append(products[::-1])
        return pairs, by_quad

    def quarters(self, number: int, head: int, quads: list[Term]) -> list[Term]:
        """Sums of 16 lanes; returns free ones."""
        bits, cycle = self.bits, FIRST_PASS + number + QUARTER
        register = self.rtl.state(f"mac.quarter[{head}]", cycle)
        expected = [
            self.stage.cpp("quarter", *quads[4 * i : 4 * i + 4], widths=(32,) * 4, signed="ssss") for i in range(4)
        ]
        pairs = [(bits.extend(self.stage.element(register, i, 4), 32, signed=True), expected[i]) for i in range(4)]
        self.prove(f"beat {number}, head {head}: sums of 16 lanes", pairs)
        free = [bits.var(20, f"quarter{i}@{cycle}.{head}") for i in range(4)]
        self.rtl.set_state(f"mac.quarter[{head}]", cycle, self.stage.array(free))
        return free

    def rows(self, number: int, head: int, quarters: list[Term]) -> None:
        """Dot products of the tokens in the slots, then their scores, which become free."""
        bits, cycle = self.bits, FIRST_PASS + number
        memory = [bits.const(8, 0)] * 12
        self.stage.cpp("row", *quarters, 0, 16 << self.row, 0, memory, widths=(*(32,) * 5, 16, 8, 8), signed="sssss")
        c, r, b = self.coefficients[head]
        for slot in range(self.slots):
            expected = word(bits, memory, 1 + slot)
            actual = self.state(f"mac.dot{slot}", cycle + DOT, head, 24)
            token = self.slots * number + slot
            self.prove(f"token {token}, head {head}: dot product", [(bits.extend(actual, 32, signed=True), expected)])
            dot = self.cut(f"mac.dot{slot}", cycle + DOT, head, 24, "dot")
            bits.abstract_products = False
            score = self.stage.cpp("scale", dot, self.header[token], c, r, b, widths=(32, 8, 16, 8, 32), signed="suuus")
            actual = self.state(f"scale.x{slot}", cycle + SCORE, head, 32)
            bits.abstract_products = True
            self.prove(f"token {token}, head {head}: score", [(actual, score)])
            self.scores[head][token] = self.cut(f"scale.x{slot}", cycle + SCORE, head, 32, f"x{slot}_")

    # ---- log-mass --------------------------------------------------------------------------------

    def pair(self, head: int, first: int) -> list[Term]:
        """Scores of tokens ``first`` and the next, each with whether it exists."""
        return [value for token in (first, first + 1) for value in (self.scores[head][token], self.exists(token))]

    def maxima(self, last: int) -> list[Term]:
        """The block's maximum by head in cycle ``last``, two tokens after two; returns free ones with their ``facts``.

        Heads take turns: one register holds all of them, so every cut of a cycle comes before the next cycle.
        """
        found = [self.bits.const(24, 0)] * GROUP
        for first in range(0, self.tokens, 2):
            found = [self.peak(head, first, found[head]) for head in range(GROUP)]
        for head, peak in enumerate(found):
            self.prove(f"head {head}: the maximum stays", [(self.state(PEAK_REGISTER, last, head, 24), peak)])
        for head, peak in enumerate(found):
            self.rtl.set_state(self.element(PEAK_REGISTER, head, 24), last, peak)
        return found

    def peak(self, head: int, first: int, before: Term) -> Term:
        """The maximum of the tokens ``before`` token ``first`` and of the next two."""
        bits, cycle = self.bits, FIRST_PASS + (first + 1) // self.slots + PEAK
        arguments = bits.extend(before, 32, signed=True), int(first == 0), *self.pair(head, first)
        expected = self.stage.cpp("peak", *arguments, widths=(32, 8, 32, 8, 32, 8), signed="susus")
        actual = bits.extend(self.state(PEAK_REGISTER, cycle, head, 24), 32, signed=True)
        self.prove(f"head {head}, tokens to {first + 1}: maximum", [(actual, expected)])
        facts = [(fact, bits.const(1, 1)) for fact in self.facts(head, first + 2, bits.extract(expected, 23, 0))]
        known = self.facts(head, first, before) if first else []
        self.prove(f"head {head}, tokens to {first + 1}: none is above it, one attains it", facts, known)
        return self.cut(PEAK_REGISTER, cycle, head, 24, "peak")

    def any(self, tokens: int) -> Term:
        """A bit: one of the first ``tokens`` exists."""
        some = self.bits.const(1, 0)
        for token in range(tokens):
            some = self.bits.either(some, self.exists(token))
        return some

    def attains(self, head: int, token: int, peak: Term) -> Term:
        """A bit: the token exists and ``peak`` is its score's exponent."""
        exponent = self.bits.extract(self.scores[head][token], 31, 8)
        return self.bits.both(self.exists(token), self.bits.op(Kind.EQUAL, peak, exponent))

    def below(self, head: int, token: int, peak: Term) -> Term:
        """A bit: the token does not exist, or its score's exponent is at most ``peak``."""
        exponent = self.bits.extract(self.scores[head][token], 31, 8)
        return self.implies(self.exists(token), self.bits.op(Kind.BV_SGE, peak, exponent))

    def facts(self, head: int, tokens: int, peak: Term) -> list[Term]:
        """What a maximum is: no token that exists is above it, and one attains it; of none it is the lowest of all."""
        attained, some = self.bits.const(1, 0), self.any(tokens)
        for token in range(tokens):
            attained = self.bits.either(attained, self.attains(head, token, peak))
        below = [self.below(head, token, peak) for token in range(tokens)]
        lowest = self.bits.op(Kind.EQUAL, peak, self.bits.const(24, 1 << 23))
        return [*below, self.implies(some, attained), self.bits.either(some, lowest)]

    def sum(self, head: int, peak: Term, cycle: int) -> Term:
        """Addends relative to the maximum and their sum, two tokens after two.

        Returns a free sum that is at least 2^20 where a token exists, because one attains the maximum.
        """
        bits, name = self.bits, f"block_mass.sum[{head}]"
        one, total, attained, known = bits.const(1, 1), bits.const(26, 0), bits.const(1, 0), []
        for first in range(0, self.tokens, 2):
            at, label = cycle + 1 + first // 2, f"head {head}, tokens to {first + 1}"
            addends = self.addends(head, first, peak, at)
            here = [self.attains(head, first + side, peak) for side in (0, 1)]
            full = [self.implies(bit, self.full(addend)) for bit, addend in zip(here, addends, strict=True)]
            attained = bits.either(attained, bits.either(*here))
            wide = [bits.extend(value, 32, signed=False) for value in (total, *addends)]
            expected = self.stage.cpp("add", *wide, widths=(32, 32, 32))
            most = (first + 2) * ((1 << 21) - 1)
            claims = [bits.op(Kind.BV_ULE, expected, bits.const(32, most)), self.implies(attained, self.full(expected))]
            actual = bits.extend(self.rtl.state(name, at + 1), 32, signed=False)
            self.prove(f"{label}: sum", [(actual, expected), *((claim, one) for claim in claims)], [*known, *full])
            total = bits.var(26, f"sum{first}.{head}")
            self.rtl.set_state(name, at + 1, bits.extend(total, 27, signed=False))
            known = [bits.op(Kind.BV_ULE, total, bits.const(26, most)), self.implies(attained, self.full(total))]
        whole = bits.extend(total, 27, signed=False)
        self.prove(f"head {head}: the sum stays", [(self.rtl.state(name, cycle + 17), whole)])
        self.rtl.set_state(name, cycle + 17, whole)
        assume = [*known, *self.facts(head, self.tokens, peak)]
        enough = self.implies(self.any(self.tokens), self.full(total))
        self.prove(f"head {head}: the sum has its top bit", [(enough, one)], assume)
        return total

    def addends(self, head: int, first: int, peak: Term, cycle: int) -> list[Term]:
        """Two tokens' addends, of which one that attains the maximum is proved ``full``; returns free ones."""
        bits, pairs, free = self.bits, [], []
        for side in (0, 1):
            token, name = first + side, f"block_mass.addend{side}[{head}]"
            mass = self.stage.cpp("token_mass", self.scores[head][token], peak, widths=(32, 32), signed="ss")
            value = bits.choose(self.exists(token), mass, bits.const(32, 0))
            pairs.append((bits.extend(self.rtl.state(name, cycle), 32, signed=False), value))
            pairs.append((self.implies(self.attains(head, token, peak), self.full(value)), bits.const(1, 1)))
            free.append(bits.var(21, f"addend{token}.{head}"))
        assume = [self.below(head, first + side, peak) for side in (0, 1)]
        self.prove(f"head {head}, tokens {first} and {first + 1}: addends", pairs, assume)
        for side in (0, 1):
            self.rtl.set_state(f"block_mass.addend{side}[{head}]", cycle, free[side])
        return free

    def full(self, mass: Term) -> Term:
        """A bit: ``mass`` is at least what a token at the maximum has."""
        return self.bits.op(Kind.BV_UGE, mass, self.bits.const(self.bits.width(mass), 1 << 20))

    def log_mass(self, head: int, record: Term, peak: Term, total: Term, sound: Term) -> None:
        """What leaves: the log-mass, or EMPTY where no token exists or the block is not sound."""
        bits, some = self.bits, self.any(self.tokens)
        value = self.stage.cpp("log_of_block", peak, total, widths=(32, 32), signed="su")
        expected = bits.choose(bits.both(some, sound), value, bits.const(32, 1 << 31))
        bad = bits.op(Kind.BV_NOT, sound)
        pairs = [(bits.extract(record, 38, 7), expected), (bits.extract(record, 0, 0), bad)]
        pairs.append((bits.extract(record, 6, 3), bits.const(4, head)))
        self.prove(f"head {head}: log-mass", pairs, [self.implies(some, self.full(total))])

    def crc(self) -> Term:
        """The running value of every beat; returns the bit that says whether the block is sound."""
        affine, bits = Affine(self.bits), self.bits
        running = bits.const(32, 0)
        for number in range(self.beats + 1):
            cycle = HEADER + number + 4
            if number:
                expected = self.stage.cpp("crc32c_beat", running, self.payload[number - 1], widths=(32, 8))
            else:
                expected = self.stage.cpp("crc32c_header", self.header, widths=(8,))
            both = affine.normal(self.rtl.state("crc.running", cycle)), affine.normal(expected)
            self.prove(f"beat {number - 1}: CRC" if number else "header: CRC", [both])
            running = bits.var(32, f"running@{cycle}")
            self.rtl.set_state("crc.running", cycle, running)
        return bits.op(Kind.EQUAL, bits.op(Kind.BV_NOT, running), bits.concat(self.header[60:64][::-1]))


def _prove(int4: int, tokens: int, bug: tuple[str, str] | None = None) -> None:
    chain = Chain(int4, tokens, bug)
    chain.prove_all()
    for name, pairs, seconds in chain.steps:
        print(f"{name:<48} {pairs:>4} pairs {seconds:8.3f} s")
    print(f"{len(chain.steps)} queries, {sum(seconds for _, _, seconds in chain.steps):.1f} s")


SLOW_BUGS = {
    "slots": ("two_slots = request.row <= 3'd1", "two_slots = request.row == 3'd0"),
    "query layout": (
        "beat[(lane%16)*16+8+:8] : beat[(lane%32)*16+8+:8]",
        "beat[(lane%16)*16+8+:8] : beat[(lane%32)*16+:8]",
    ),
    "maximum of the other half": ("job_half <= pass_half", "job_half <= !pass_half"),
    "CRC unheeded": ("in_data(crc_match && header_sound)", "in_data(crc_match || header_sound)"),
}


def test_a_block_is_the_chain_of_the_stages() -> None:
    """INT4, D = 64: the first four of 32 tokens may exist, each or not; the CRC covers every beat."""
    _prove(1, 4)


@pytest.mark.slow
@pytest.mark.parametrize(("int4", "tokens"), [(1, 32), (0, 4)], ids=["int4-every-token", "int8"])
def test_larger_blocks(int4: int, tokens: int) -> None:
    _prove(int4, tokens)


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(("op.m1 <= m[{token[4:1], 1'b1}]", "op.m1 <= m[token]"), id="multiplier of the wrong token"),
        *(pytest.param(bug, id=name, marks=pytest.mark.slow) for name, bug in SLOW_BUGS.items()),
    ],
)
def test_what_is_wired_wrongly_is_found(bug: tuple[str, str]) -> None:
    """Faults between the stages, each of which is right by itself."""
    with pytest.raises(AssertionError, match="they differ for"):
        _prove(1, 4, bug)
