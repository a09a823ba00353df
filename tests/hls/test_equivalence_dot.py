"""The dot product of HLS C++ and RTL proved equal (see test_equivalence.py), from byte lanes to rows of several beats.

Products are shared between both sides by congruence once their operands are proved equal. The RTL's multipliers hold
two heads each; that their product is that of both heads follows from their operands and the ring laws.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
from bitwuzla import Kind, Term
from hls.proof.llvm_ir import compiler
from hls.proof.stage import HEADS, Stage, octets, word

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="no clang++ on the PATH to lower the C++ with"),
    pytest.mark.usefixtures("deep_recursion"),
]

QUAD_BUG = ("even[0] + even[1] + even[2] + even[3]", "even[0] + even[1] + even[2] + even[2]")
MAC_BUG = ("+ 20'(quad_sum[p][4*i+j][17])", "")


# ---- lanes and quads -----------------------------------------------------------------------------


def test_unpack() -> None:
    for int4 in (0, 1):
        stage = Stage("nkv_unpack")
        stage.fix(int4=int4)
        stage.give(0, enable=1)
        even, odd = ([stage.bits.const(8, 0)] * 64 for _ in range(2))
        memory = octets(stage.bits, stage.input("beat", 0))
        stage.cpp("unpack", memory, int4, even, odd, widths=(8, 8, 8, 8))
        for lane in range(64):
            stage.equal(stage.lane(stage.rtl.output("even", 1), lane, 8), even[lane])
            if int4:  # otherwise the odd products rest: test_quad
                stage.equal(stage.lane(stage.rtl.output("odd", 1), lane, 4), odd[lane])


def _quad(int4: int, bug: tuple[str, str] | None = None) -> None:
    """Four lanes and two heads: the packed sum against the C++ sums, products shared by congruence."""
    stage = Stage("nkv_quad", "nkv_mul_pair", replace=bug)
    bits = stage.bits
    bits.abstract_products = True
    stage.fix(int4=int4, enable=3)
    if int4:  # unpacked nibbles: test_unpack
        nibbles = [bits.extend(bits.var(4, f"nibble{lane}"), 8, signed=True) for lane in range(4)]
        stage.give(0, key_even=bits.concat(nibbles[::-1]))
    even = octets(bits, stage.input("key_even", 0))
    odd = [bits.extend(stage.lane(stage.input("key_odd", 0), lane, 4), 8, signed=True) for lane in range(4)]
    if not int4:
        odd = [bits.const(8, 0)] * 4
    sums = []
    for half in ("high", "low"):
        q_even, q_odd = (octets(bits, stage.input(f"{side}_{half}", 0)) for side in ("even", "odd"))
        sums.append(bits.extend(stage.cpp("dot4", q_even, q_odd, even, odd, widths=(8,) * 4), 18, signed=True))
    # Where a multiplier's operands are proved to be the packed heads and the key, its product is that of both heads:
    # (a 2^18 + b) k = a k 2^18 + b k in every ring, so also in that of words.
    operands: list[tuple[Term, Term]] = []
    for node, (lane, side) in _multipliers(stage, r"g_lane\[(\d)\]\.multiply_(even|odd)\.product").items():
        number = int(lane)
        key = (even if side == "even" else odd)[number]
        heads = [octets(bits, stage.input(f"{side}_{half}", 0))[number] for half in ("high", "low")]
        stage.rtl.replace[node] = _two_products(stage, heads, key, operands)
    packed = stage.rtl.output("sum", 2)
    for actual, expected in operands:
        stage.equal(actual, expected)
    stage.equal(packed, stage.bits.pack(*sums))


def _multipliers(stage: Stage, pattern: str) -> dict[str, tuple[str, ...]]:
    """The multiply nodes behind registers whose names match, with what the pattern captured."""
    found = {}
    for name, state in stage.circuit.states.items():
        if match := re.fullmatch(pattern, name):
            node = stage.circuit.multiplication(stage.circuit.next[state])
            assert node is not None, f"{name} registers no product"
            found[node] = match.groups()
    return found


def _two_products(stage: Stage, heads: list[Term], key: Term, operands: list[tuple[Term, Term]]):  # type: ignore[no-untyped-def]
    def product(values: list[Term], cycle: int) -> Term:
        bits, width = stage.bits, stage.bits.width(values[0])
        if cycle:
            return bits.var(width, f"product@{cycle}")
        wide = bits.extend(key, 16, signed=True)
        operands.extend([(values[0], bits.pack(*heads, width)), (values[1], bits.extend(key, width, signed=True))])
        high, low = (bits.op(Kind.BV_MUL, bits.extend(q, 16, signed=True), wide) for q in heads)
        return bits.pack(high, low, width)

    return product


@pytest.mark.parametrize("int4", [0, 1])
def test_quad(int4: int) -> None:
    _quad(int4)


def test_quad_range() -> None:
    """Products lie within 2^14 and hence sums of four within 2^16, so that a packed word holds two sums."""
    stage = Stage("nkv_unpack")  # any module: only C++ and numbers are at stake
    bits = stage.bits
    q, k = ([bits.var(8, f"{name}{lane}") for lane in range(4)] for name in "qk")
    product = bits.op(Kind.BV_MUL, bits.extend(q[0], 16, signed=True), bits.extend(k[0], 16, signed=True))
    stage.equal(stage.bits.within(product, 1 << 14), bits.const(1, 1))
    bits.abstract_products = True
    total = stage.cpp("dot4", q, [bits.const(8, 0)] * 4, k, [bits.const(8, 0)] * 4, widths=(8,) * 4)
    small = [stage.bits.within(product, 1 << 14) for product in bits.products()]
    stage.equal(stage.bits.within(total, 1 << 16), bits.const(1, 1), assume=small)


# ---- mac: sums of quads, slots, rows of several beats --------------------------------------------

MAC_FILES = ("nkv_mul_pair", "nkv_quad", "nkv_unpack")
MULTIPLIER = r"g_pair\[(\d)\]\.g_quad\[(\d+)\]\.quad_products\.g_lane\[(\d)\]\.multiply_(even|odd)\.product"
LATENCY = 6


def _mac(int4: int, row: int, ops: list[dict[str, int | Term]], bug: tuple[str, str] | None = None) -> Stage:
    """The module with ``ops`` entering in cycles 0, 1, …; rows of 16 << row bytes."""
    stage = Stage("nkv_mac", *MAC_FILES, replace=bug)
    stage.fix(int4=int4, row=row, pairs_used=15)
    for cycle, op in enumerate(ops):
        stage.give(cycle, op_valid=1, op=stage.op(**op))
    return stage


@pytest.mark.parametrize("int4", [0, 1])
def test_multipliers_get_the_right_lanes(int4: int) -> None:
    """Every multiplier of the module multiplies its lane's key by the packed queries of its two heads."""
    stage = _mac(int4, 2, [{}])
    bits = stage.bits
    even, odd = ([bits.const(8, 0)] * 64 for _ in range(2))
    stage.cpp("unpack", octets(bits, stage.input("beat", 0)), int4, even, odd, widths=(8, 8, 8, 8))
    multipliers = _multipliers(stage, MULTIPLIER)
    assert len(multipliers) == 2 * 64 * HEADS // 2
    pairs = []
    for node, (pair, quad, lane_in_quad, side) in multipliers.items():
        if side == "odd" and not int4:
            continue
        lane = 4 * int(quad) + int(lane_in_quad)
        heads = [octets(bits, stage.input(f"query_{side}", 1, 2 * int(pair) + half))[lane] for half in (1, 0)]
        key = (even if side == "even" else odd)[lane]
        a, b = (stage.rtl.node(word, 1) for word in stage.circuit.nodes[node].arguments)
        width = bits.width(a)
        pairs += [(a, stage.bits.pack(*heads, width)), (b, bits.extend(key, width, signed=True))]
    assert bits.find_difference(pairs) is None


def _quads(stage: Stage, cycle: int) -> list[list[Term]]:
    """Sums of the four lanes, by head and quad: free but for test_quad_range, in place of the packed registers.

    A packed word is its low sum and, above it, the high sum less one where the low one is negative. That the word is
    the one of test_quad, and what the upper part is worth when extended, is proved here for the range that sums have.
    """
    bits = stage.bits
    sums = [[bits.var(18, f"quad{h}.{i}@{cycle}") for i in range(16)] for h in range(HEADS)]
    for pair, quad in itertools.product(range(HEADS // 2), range(16)):
        low, high = sums[2 * pair][quad], sums[2 * pair + 1][quad]
        packed, upper, wide = bits.packed(low, high)
        assume = [bits.within(high, 1 << 16)]
        if (pair, quad) == (0, 0):  # the others differ in the names of the sums only
            stage.equal(packed, stage.bits.pack(high, low))
            stage.equal(bits.extend(upper, 20, signed=True), wide, assume=assume)
        bits.use_sign_extension(upper, wide)
        stage.rtl.set_state(f"g_pair[{pair}].g_quad[{quad}].quad_products.sum", cycle, packed)
    return sums


def _quarters(stage: Stage, quads: list[Term]) -> list[Term]:
    return [stage.cpp("quarter", *quads[4 * i : 4 * i + 4], widths=(32,) * 4, signed="ssss") for i in range(4)]


def _quarter(heads: range, bug: tuple[str, str] | None = None) -> None:
    stage = _mac(0, 2, [{}], bug)
    quads = _quads(stage, 3)
    for head in heads:
        register = stage.rtl.state(f"quarter[{head}]", 4)
        for i, expected in enumerate(_quarters(stage, quads[head])):
            stage.equal(stage.element(register, i, 4), expected)


def test_quarter() -> None:
    _quarter(range(HEADS))


def _free_quarters(stage: Stage, cycle: int) -> list[list[Term]]:
    """Free sums of 16 lanes, by head, in place of the registers in ``cycle``: test_quarter."""
    quarters = [[stage.bits.var(20, f"quarter{h}.{i}@{cycle}") for i in range(4)] for h in range(HEADS)]
    for head, values in enumerate(quarters):
        stage.rtl.set_state(f"quarter[{head}]", cycle, stage.array(values))
    return quarters


def _row(stage: Stage, quarters: list[Term], before: Term | int, row: int, phase: int) -> list[Term]:
    """The row so far and the two slots, by C++."""
    memory = [stage.bits.const(8, 0)] * 12
    stage.cpp("row", *quarters, before, 16 << row, phase, memory, widths=(*(32,) * 5, 16, 8, 8), signed="sssss")
    return [word(stage.bits, memory, i) for i in range(3)]


@pytest.mark.parametrize(("row", "phase"), [(0, 0), (0, 1), (1, 0), (2, 0)])
def test_row_within_a_beat(row: int, phase: int) -> None:
    stage = _mac(0, row, [{"phase": phase, "first_part": 1, "last_part": 1, "half": 0}])
    for head, quarters in enumerate(_free_quarters(stage, 4)):
        _, *slots = _row(stage, quarters, 0, row, phase)
        for slot in (0, 1) if row < 2 else (0,):
            stage.equal(stage.element(stage.rtl.output(f"dot{slot}", LATENCY), head), slots[slot])


@pytest.mark.parametrize("half", [0, 1])
def test_row_over_two_beats(half: int) -> None:
    """The second beat of a row adds to the first; the other half of the heads may come in between."""
    first = {"phase": 0, "first_part": 1, "half": half}
    between = {"half": 1 - half}
    second = {"phase": 0, "first_part": 0, "last_part": 1, "half": half}
    stage = _mac(0, 3, [first, between, second])
    earlier, later = _free_quarters(stage, 4), _free_quarters(stage, 6)
    for head in range(HEADS):
        before, _, _ = _row(stage, earlier[head], 0, 3, 0)
        _, dot, _ = _row(stage, later[head], before, 3, 0)
        stage.equal(stage.element(stage.rtl.output("dot0", LATENCY + 2), head), dot)


# ---- planted bugs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "proof", [lambda: _quad(0, QUAD_BUG), lambda: _quarter(range(1, 2), MAC_BUG)], ids=["quad", "quarter"]
)
def test_planted_bug_is_found(proof: Callable[[], None]) -> None:
    with pytest.raises(AssertionError, match="they differ for"):
        proof()
