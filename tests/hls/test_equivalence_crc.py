"""The CRC-32C of HLS C++ and RTL proved equal: a beat's step from every running value, the header, and the comparison.

Both sides are linear over bits, so a proof per output bit is a comparison of two parities over the same bits.
"""

from __future__ import annotations

from random import Random

import pytest
from bitwuzla import Kind
from hls.proof.affine import Affine
from hls.proof.llvm_ir import compiler
from hls.proof.stage import Stage, octets

pytestmark = pytest.mark.skipif(compiler() is None, reason="no clang++ on the PATH to lower the C++ with")

LATENCY = 4
STEP_BUG = ("^(running & ROWS[j][31:0])", "^(running & ROWS[j][32:1])")
HEADER_BUG = ("~beat[31:0], 32'd0}", "beat[31:0], 32'd0}")


def _step(first: int, bug: tuple[str, str] | None = None) -> None:
    """The running value after a beat that enters in cycle 0, whatever it was before."""
    stage = Stage("nkv_crc32c", replace=bug)
    stage.give(0, beat_valid=1, first=first, last=0)
    memory = octets(stage.bits, stage.input("beat", 0))
    if first:
        expected = stage.cpp("crc32c_header", memory, widths=(8,))
    else:
        expected = stage.cpp("crc32c_beat", stage.rtl.state("running", LATENCY - 1), memory, widths=(32, 8))
    affine = Affine(stage.bits)
    stage.equal(affine.normal(stage.rtl.state("running", LATENCY)), affine.normal(expected))


@pytest.mark.parametrize("first", [0, 1])
def test_step(first: int) -> None:
    _step(first)


def test_the_normal_form_is_the_function() -> None:
    """By the solver for few bits, and for the CRC's two sides at numbers that it fills in."""
    stage = Stage("nkv_crc32c")
    bits, affine = stage.bits, Affine(stage.bits)
    x, y = bits.var(8, "x"), bits.var(8, "y")
    table = bits.op(Kind.BV_SHR, bits.const(16, 0x6996), bits.extend(bits.extract(x, 5, 2), 16, signed=False))
    parity = bits.extend(bits.extract(table, 0, 0), 8, signed=True)
    masked = bits.op(Kind.BV_OR, bits.op(Kind.BV_AND, y, bits.const(8, 0xA5)), bits.const(8, 0x42))
    mixed = bits.op(Kind.BV_NOT, bits.op(Kind.BV_XOR, parity, masked))
    for term in (parity, masked, mixed, bits.op(Kind.BV_AND, x, y)):
        stage.equal(affine.normal(term), term)
    stage.give(0, beat_valid=1, first=0, last=0)
    beat, before = stage.input("beat", 0), stage.rtl.state("running", LATENCY - 1)
    rtl = stage.rtl.state("running", LATENCY)
    cpp = stage.cpp("crc32c_beat", before, octets(bits, beat), widths=(32, 8))
    random = Random(7)
    for _ in range(4):
        numbers = [(beat, bits.const(512, random.getrandbits(512))), (before, bits.const(32, random.getrandbits(32)))]
        given = [bits.op(Kind.EQUAL, *pair) for pair in numbers]
        for side in (rtl, cpp):
            stage.equal(affine.normal(side), side, assume=given)


def test_match() -> None:
    """The last beat's result is compared with the header's CRC field, complemented; a header's field is kept."""
    stage = Stage("nkv_crc32c")
    bits = stage.bits
    stage.give(0, beat_valid=1, first=1, last=0)
    stage.give(1, beat_valid=1, first=0, last=1)
    field = bits.extract(stage.input("beat", 0), 511, 480)
    running = bits.var(32, "running")
    stage.rtl.set_state("running", LATENCY + 1, running)
    expected = bits.op(Kind.EQUAL, bits.op(Kind.BV_NOT, running), field)
    stage.equal(stage.rtl.output("match", LATENCY + 1), expected)
    stage.equal(stage.rtl.output("result_valid", LATENCY + 1), bits.const(1, 1))
    stage.equal(stage.rtl.output("result_valid", LATENCY), bits.const(1, 0))


@pytest.mark.parametrize(("first", "bug"), [(0, STEP_BUG), (1, HEADER_BUG)], ids=["step", "header"])
def test_planted_bug_is_found(first: int, bug: tuple[str, str]) -> None:
    with pytest.raises(AssertionError, match="they differ for"):
        _step(first, bug)
