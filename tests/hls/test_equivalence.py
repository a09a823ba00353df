"""The HLS datapath and the RTL proved equal, stage by stage, for all inputs and from every state of the registers.

C++ is what clang makes of the kernel's headers, RTL is what yosys elaborates; each test is one or more miters that the
solver finds unsatisfiable. The RTL side keeps its pipeline: inputs are given in the cycle in which the module takes
them, everything else in every cycle is free. The dot product has a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bitwuzla import Kind
from hls.proof.llvm_ir import compiler
from hls.proof.stage import HEADS, Stage, octets

pytestmark = pytest.mark.skipif(compiler() is None, reason="no clang++ on the PATH to lower the C++ with")

SCALE_BUG = ("scaled[0][h] >>> r[h]", "scaled[0][h] >> r[h]")
ADDEND_BUG = ("(distance > 25'd31) ? 5'd31", "(distance > 25'd15) ? 5'd15")
LOG_BUG = ("- 26'sd20", "- 26'sd21")
FOLD_BUG = ("larger1 ? sum1 >> shift1", "larger1 ? sum1")
SHARE_BUG = ("if (y > 0) y = '0;", "")
PEAK_BUG = ("(e1 > e0) ? e1 : e0", "(e1 > e0) ? e0 : e1")


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
        lambda: _scale(0, 3, SCALE_BUG),
        lambda: _peak(1, 2, PEAK_BUG),
        lambda: _addend(1, 5, ADDEND_BUG),
        lambda: _log2(27, "log_of_block", 32, LOG_BUG),
        lambda: _fold(1, 7, FOLD_BUG),
        lambda: _share(4, SHARE_BUG),
    ],
    ids=["scale", "peak", "addend", "log2", "fold", "share"],
)
def test_planted_bug_is_found(proof: Callable[[], None]) -> None:
    with pytest.raises(AssertionError, match="they differ for"):
        proof()
