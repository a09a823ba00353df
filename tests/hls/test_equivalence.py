"""The HLS datapath and the RTL proved equal, stage by stage, for all inputs and from every state of the registers.

C++ is what clang makes of the kernel's headers, RTL is what yosys elaborates; each test is one or more miters that the
solver finds unsatisfiable. The RTL side keeps its pipeline: inputs are given in the cycle in which the module takes
them, everything else in every cycle is free. Products of the dot product are shared between both sides by congruence
once their operands are proved equal; that one multiplier holds two of them is proved by its operands and the ring laws.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
from bitwuzla import Kind, Term
from hls.proof.llvm_ir import compiler
from hls.proof.stage import HEADS, Stage, octets, word

pytestmark = pytest.mark.skipif(compiler() is None, reason="no clang++ on the PATH to lower the C++ with")

SCALE_BUG = ("scaled[0][h] >>> r[h]", "scaled[0][h] >> r[h]")
ADDEND_BUG = ("(distance > 25'd31) ? 5'd31", "(distance > 25'd15) ? 5'd15")
LOG_BUG = ("- 26'sd20", "- 26'sd21")
FOLD_BUG = ("larger1 ? sum1 >> shift1", "larger1 ? sum1")
SHARE_BUG = ("if (y > 0) y = '0;", "")
QUAD_BUG = ("even[0] + even[1] + even[2] + even[3]", "even[0] + even[1] + even[2] + even[2]")
MAC_BUG = ("+ 20'(quad_sum[p][4*i+j][17])", "")
PEAK_BUG = ("(e1 > e0) ? e1 : e0", "(e1 > e0) ? e0 : e1")


# ---- dot ---------------------------------------------------------------------------------------------------------


def _pack(stage: Stage, high: Term, low: Term) -> Term:
    """high * 2^18 + low in 36 bits: two sums in one word."""
    bits = stage.bits
    wide = bits.extend(high, 36, signed=True)
    shifted = bits.op(Kind.BV_SHL, wide, bits.const(36, 18))
    return bits.op(Kind.BV_ADD, shifted, bits.extend(low, 36, signed=True))


def test_unpack() -> None:
    for int4 in (0, 1):
        stage = Stage("nkv_unpack")
        stage.fix(int4=int4)
        stage.give(0, enable=1)
        even, odd = ([stage.bits.const(8, 0)] * 64 for _ in range(2))
        memory = octets(stage.bits, stage.input("beat", 0))
        stage.cpp("unpack", memory, int4, even, odd, widths=(8, 8, 8, 8))
        for lane in range(64):
            for side, expected in (("even", even[lane]), ("odd", odd[lane])):
                stage.equal(stage.element(stage.rtl.output(side, 1), lane, 64), expected)


def _quad(int4: int, bug: tuple[str, str] | None = None) -> None:
    """Four lanes and two heads: the packed sum against the C++ sums, products shared by congruence."""
    stage = Stage("nkv_quad", "nkv_mul_pair", replace=bug)
    bits = stage.bits
    bits.abstract_products = True
    stage.fix(int4=int4, enable=3)
    if int4:  # unpacked nibbles: test_unpack
        nibbles = [bits.extend(bits.var(4, f"nibble{lane}"), 8, signed=True) for lane in range(4)]
        stage.give(0, key_even=stage.array(nibbles))
    even = [stage.input("key_even", 0, lane, 4) for lane in range(4)]
    odd = [bits.extend(stage.input("key_odd", 0, lane, 4), 8, signed=True) for lane in range(4)]
    if not int4:
        odd = [bits.const(8, 0)] * 4
    sums = []
    for half in ("high", "low"):
        q_even, q_odd = (octets(bits, stage.input(f"{side}_{half}", 0)) for side in ("even", "odd"))
        sums.append(bits.extend(stage.cpp("dot4", q_even, q_odd, even, odd, widths=(8,) * 4), 18, signed=True))
    # Where a multiplier's operands are proved to be the packed heads and the key, its product is that of both heads:
    # (a 2^18 + b) k = a k 2^18 + b k in every ring, so also in that of 36-bit words.
    operands: list[tuple[Term, Term]] = []
    for node, (lane, side) in _multipliers(stage, r"g_lane\[(\d)\]\.multiply_(even|odd)\.product").items():
        number = int(lane)
        key = (even if side == "even" else odd)[number]
        heads = [octets(bits, stage.input(f"{side}_{half}", 0))[number] for half in ("high", "low")]
        stage.rtl.replace[node] = _two_products(stage, heads, key, operands)
    packed = stage.rtl.output("sum", 2)
    for actual, expected in operands:
        stage.equal(actual, expected)
    stage.equal(packed, _pack(stage, *sums))


def _multipliers(stage: Stage, pattern: str) -> dict[str, tuple[str, ...]]:
    """The multiply nodes behind registers whose names match, with what the pattern captured."""

    def behind(number: str) -> str | None:
        node = stage.circuit.nodes[number.lstrip("-")]
        if node.op == "mul":
            return number
        if node.op == "ite":
            return next((found for word in node.arguments[1:] if (found := behind(word))), None)
        return None

    found = {}
    for name, state in stage.circuit.states.items():
        if match := re.fullmatch(pattern, name):
            node = behind(stage.circuit.next[state])
            assert node is not None, f"{name} registers no product"
            found[node] = match.groups()
    return found


def _two_products(stage: Stage, heads: list[Term], key: Term, operands: list[tuple[Term, Term]]):  # type: ignore[no-untyped-def]
    def product(values: list[Term], cycle: int) -> Term:
        bits = stage.bits
        if cycle:
            return bits.var(36, f"product@{cycle}")
        wide = bits.extend(key, 16, signed=True)
        operands.extend([(values[0], _pack(stage, *heads)), (values[1], bits.extend(key, 36, signed=True))])
        return _pack(stage, *(bits.op(Kind.BV_MUL, bits.extend(q, 16, signed=True), wide) for q in heads))

    return product


@pytest.mark.parametrize("int4", [0, 1])
def test_quad(int4: int) -> None:
    _quad(int4)


def _within(stage: Stage, term: Term, bound: int) -> Term:
    """Whether -bound <= term <= bound."""
    bits, width = stage.bits, stage.bits.width(term)
    low = bits.op(Kind.BV_SGE, term, bits.const(width, -bound))
    return bits.both(low, bits.op(Kind.BV_SLE, term, bits.const(width, bound)))


def test_quad_range() -> None:
    """Products lie within 2^14 and hence sums of four within 2^16, so that a packed word holds two sums."""
    stage = Stage("nkv_unpack")  # any module: only C++ and numbers are at stake
    bits = stage.bits
    q, k = ([bits.var(8, f"{name}{lane}") for lane in range(4)] for name in "qk")
    product = bits.op(Kind.BV_MUL, bits.extend(q[0], 16, signed=True), bits.extend(k[0], 16, signed=True))
    stage.equal(_within(stage, product, 1 << 14), bits.const(1, 1))
    bits.abstract_products = True
    total = stage.cpp("dot4", q, [bits.const(8, 0)] * 4, k, [bits.const(8, 0)] * 4, widths=(8,) * 4)
    small = [_within(stage, product, 1 << 14) for product in bits.products()]
    stage.equal(_within(stage, total, 1 << 16), bits.const(1, 1), assume=small)


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
        lane = 4 * int(quad) + int(lane_in_quad)
        heads = [octets(bits, stage.input(f"query_{side}", 1, 2 * int(pair) + half))[lane] for half in (1, 0)]
        key = (even if side == "even" else odd)[lane]
        a, b = (stage.rtl.node(word, 1) for word in stage.circuit.nodes[node].arguments)
        pairs += [(a, _pack(stage, *heads)), (b, bits.extend(key, 36, signed=True))]
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
        borrow = bits.extend(bits.sign(low), 18, signed=True)
        upper = bits.op(Kind.BV_ADD, high, borrow)
        packed = bits.concat([upper, low])
        assume = [_within(stage, high, 1 << 16)]
        wide = bits.op(Kind.BV_ADD, bits.extend(high, 20, signed=True), bits.extend(bits.sign(low), 20, signed=True))
        if (pair, quad) == (0, 0):  # the others differ in the names of the sums only
            stage.equal(packed, _pack(stage, high, low))
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


# ---- scale, block maximum, addends, log2 ---------------------------------------------------------


def _scale(slot: int, head: int, bug: tuple[str, str] | None = None) -> None:
    stage = Stage("nkv_scale", replace=bug)
    stage.fix(heads_used=255, two_slots=1)
    stage.give(0, dot_valid=1, dot_op=stage.op())
    m = stage.bits.var(8, f"op.m{slot}")
    dot = stage.input(f"dot{slot}", 0, head)
    c, r, b = (stage.input(name, cycle, head) for name, cycle in (("c", 1), ("r", 2), ("b", 3)))
    expected = stage.cpp("scale", dot, m, c, r, b, widths=(32, 8, 16, 8, 32), signed="suuus")
    stage.equal(stage.element(stage.rtl.output(f"x{slot}", 4), head), expected)


@pytest.mark.parametrize("slot", [0, 1])
def test_scale(slot: int) -> None:
    for head in range(HEADS):
        _scale(slot, head)


def _peak(two_slots: int, head: int, bug: tuple[str, str] | None = None) -> None:
    """The maximum of a block's first pass, and of a later pass with what the register holds."""
    for token in (0, 2):
        stage = Stage("nkv_block_scores", replace=bug)
        stage.fix(heads_used=255, two_slots=two_slots)
        stage.give(0, x_valid=1, x_op=stage.op(token=token, half=0))
        stage.give(1, x_valid=0)
        bits = stage.bits
        x = [stage.input(f"x{slot}", 0, head) for slot in (0, 1)]
        exists = [bits.op(Kind.DISTINCT, bits.var(8, f"op.m{slot}"), bits.const(8, 0)) for slot in (0, 1)]
        if not two_slots:
            exists[1] = bits.const(1, 0)
        # With job_half at 0 the output shows the register of the first half: before the pass and after it.
        stage.give(2, x_valid=0)
        before = stage.element(stage.rtl.output("job_peak", 1), head)
        expected = stage.cpp(
            "peak", before, token == 0, x[0], exists[0], x[1], exists[1], widths=(32, 8, 32, 8, 32, 8), signed="susus"
        )
        after = stage.element(stage.rtl.output("job_peak", 2), head)
        half = [stage.rtl.output("job_half", cycle) for cycle in (1, 2)]
        idle = bits.op(Kind.BV_NOT, bits.either(half[0], half[1]))
        stage.equal(after, expected, assume=[idle])


@pytest.mark.parametrize("two_slots", [0, 1])
def test_peak(two_slots: int) -> None:
    for head in range(HEADS):
        _peak(two_slots, head)


def _addend(slot: int, head: int, bug: tuple[str, str] | None = None) -> None:
    """Registers to registers: the addend of a token that exists, relative to the block's maximum."""
    stage = Stage("nkv_block_mass", "nkv_fifo", "nkv_log2", replace=bug)
    bits = stage.bits
    stage.fix(heads_used=255)
    stage.rtl.set_state("valid", 0, bits.const(3, 0b001))
    x, exists = (
        stage.element(bits.extract(stage.input(f"read{slot}", 0), 255, 0), HEADS - 1 - head),
        bits.sign(stage.input(f"read{slot}", 0)),
    )
    peak = bits.var(24, "peak")
    for name in _registers_of(stage, f"addend{slot}[{head}]", 24):
        stage.rtl.set_node(name, 0, peak)
    mass = stage.cpp("token_mass", x, peak, widths=(32, 32), signed="ss")
    expected = bits.choose(exists, mass, bits.const(32, 0))
    above = bits.op(Kind.BV_SGE, peak, bits.extract(x, 31, 8))  # the peak is the maximum: test_peak
    stage.equal(stage.rtl.state(f"addend{slot}[{head}]", 1), expected, signed=False, assume=[above])


def _registers_of(stage: Stage, name: str, width: int) -> list[str]:
    """Registers of ``width`` bits that the next value of ``name`` reads directly."""
    nodes = stage.circuit.nodes
    found, seen, todo = [], set(), [stage.circuit.next[stage.circuit.states[name]]]
    while todo:
        number = todo.pop().lstrip("-")
        if number in seen or number not in nodes:
            continue
        seen.add(number)
        node = nodes[number]
        if node.op == "state":
            if node.width == width:
                found.append(number)
        elif node.op not in ("input", "const", "constd", "consth", "zero", "one", "ones"):
            todo += node.arguments[:1] if node.op in ("slice", "uext", "sext") else node.arguments
    return found


@pytest.mark.parametrize("slot", [0, 1])
def test_addend(slot: int) -> None:
    for head in range(HEADS):
        _addend(slot, head)


@pytest.mark.parametrize("first", [0, 1])
def test_sum(first: int) -> None:
    stage = Stage("nkv_block_mass", "nkv_fifo", "nkv_log2")
    bits = stage.bits
    stage.fix(heads_used=255)
    stage.rtl.set_state("valid", 0, bits.const(3, 0b010))
    stage.rtl.set_state("first", 0, bits.const(2, first << 1))
    for head in range(HEADS):
        before = bits.const(32, 0) if first else stage.rtl.state(f"sum[{head}]", 0)
        addends = [stage.rtl.state(f"addend{slot}[{head}]", 0) for slot in (0, 1)]
        expected = stage.cpp("add", before, *addends, widths=(32, 32, 32))
        small = bits.op(Kind.BV_ULT, bits.extend(before, 32, signed=False), bits.const(32, 30 << 21))
        stage.equal(stage.rtl.state(f"sum[{head}]", 1), expected, signed=False, assume=[small])


def _log2(width: int, function: str, cpp_width: int, bug: tuple[str, str] | None = None) -> None:
    stage = Stage("nkv_log2", parameters={"WIDTH": width}, replace=bug)
    stage.fix(out_ready=1, in_valid=1)
    stage.give(0, empty=0)
    bits = stage.bits
    s, exponent = stage.input("s", 0), stage.input("exponent", 0)
    expected = stage.cpp(function, exponent, s, widths=(32, cpp_width), signed="su")
    least = bits.op(Kind.BV_UGE, s, bits.const(width, 1 << 20))
    fits = [] if function == "total_of" else [bits.op(Kind.BV_ULT, s, bits.const(width, 1 << 26))]
    stage.equal(stage.rtl.output("value", 2), expected, assume=[least, *fits])


@pytest.mark.parametrize(("width", "function", "cpp_width"), [(27, "log_of_block", 32), (40, "total_of", 64)])
def test_log2(width: int, function: str, cpp_width: int) -> None:
    _log2(width, function, cpp_width)


def test_log2_of_nothing() -> None:
    stage = Stage("nkv_log2", parameters={"WIDTH": 40})
    stage.fix(out_ready=1, in_valid=1)
    stage.give(0, empty=1)
    expected = stage.cpp("total_of", stage.input("exponent", 0), 0, widths=(32, 64), signed="su")
    stage.equal(stage.rtl.output("value", 2), expected)


# ---- total, priority -----------------------------------------------------------------------------


def _fold(known: int, head: int, bug: tuple[str, str] | None = None) -> None:
    """One log-mass into a head's register, from any register; nothing else is under way."""
    stage = Stage("nkv_fold", "nkv_log2", replace=bug)
    bits, rtl = stage.bits, stage.rtl
    stage.fix(start=0, finish=0)
    stage.give(0, mass_valid=1, mass_head=head)
    stage.give(1, mass_valid=0)
    stage.give(2, mass_valid=0)
    rtl.set_state("valid", 0, bits.const(2, 0))
    rtl.set_state("known", 0, bits.const(16, known << head))
    exponent, total = rtl.state(f"exponents[{head}]", 0), rtl.state(f"sums[{head}]", 0)
    memory = [octets(bits, bits.extend(exponent, 32, signed=True))]
    memory.append(octets(bits, bits.extend(total, 64, signed=False) if known else bits.const(64, 0)))
    value = stage.input("mass_value", 0)
    stage.cpp("fold", *memory, value, widths=(8, 8, 32), signed="uus")
    streaming = bits.op(Kind.EQUAL, rtl.output("mass_ready", 0), bits.const(1, 1))
    some = bits.op(Kind.DISTINCT, value, bits.const(32, 1 << 31))
    room = bits.op(Kind.BV_ULT, total, bits.const(40, 1 << 39))
    least = bits.op(Kind.BV_UGE, total, bits.const(40, 1 << 20))
    assume = [streaming, some, room, *([least] if known else [])]
    stage.equal(rtl.state(f"exponents[{head}]", 3), bits.concat(memory[0][::-1]), assume=assume)
    stage.equal(rtl.state(f"sums[{head}]", 3), bits.concat(memory[1][::-1]), signed=False, assume=assume)


@pytest.mark.parametrize("known", [0, 1])
def test_fold(known: int) -> None:
    for head in (0, 7, 15):
        _fold(known, head)


def _share(head: int, bug: tuple[str, str] | None = None) -> None:
    stage = Stage("nkv_priority", replace=bug)
    stage.fix(group=8)
    stage.give(0, row_valid=1, row_half=0)
    mass = stage.element(stage.input("row", 0), HEADS - 1 - head)
    total = stage.input("totals", 0, head, 16)
    expected = stage.cpp("share", mass, total, widths=(32, 32), signed="ss")
    stage.equal(stage.rtl.state(f"share[{head}]", 2), expected, signed=False)


def test_share() -> None:
    for head in range(HEADS):
        _share(head)


# ---- planted bugs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "proof",
    [
        lambda: _quad(0, QUAD_BUG),
        lambda: _quarter(range(1, 2), MAC_BUG),
        lambda: _scale(0, 3, SCALE_BUG),
        lambda: _peak(1, 2, PEAK_BUG),
        lambda: _addend(1, 5, ADDEND_BUG),
        lambda: _log2(27, "log_of_block", 32, LOG_BUG),
        lambda: _fold(1, 7, FOLD_BUG),
        lambda: _share(4, SHARE_BUG),
    ],
    ids=["quad", "quarter", "scale", "peak", "addend", "log2", "fold", "share"],
)
def test_planted_bug_is_found(proof: Callable[[], None]) -> None:
    with pytest.raises(AssertionError, match="they differ for"):
        proof()
