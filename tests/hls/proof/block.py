"""A score block through ``nkv_score`` from reset, every bit of it free, beside the same block through the C++ stages.

The netlist of the whole module is unrolled over the cycles that a block takes; only its control is concrete: request,
run, format, and which cycle each beat comes in. ``Block.cut`` replaces a register, once the solver found it equal to
the C++ value, by a free vector that from then on stands for both. So every query is small, and together they say that
the log-mass at the end is the C++ chain's: what they share are the cut points, which the same unrolling holds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from bitwuzla import Kind, Term
from hls.proof.stage import HEADS, Stage, octets

FILES = (
    "nkv_fifo", "nkv_sequencer", "nkv_crc32c", "nkv_query_layout", "nkv_query_store", "nkv_unpack", "nkv_mul_pair",
    "nkv_quad", "nkv_mac", "nkv_coefficients", "nkv_scale", "nkv_block_scores", "nkv_log2", "nkv_block_mass",
)  # fmt: skip
GROUP = 2
"""Query heads: one pair, which shares its multipliers."""
TOKENS = 32
HEADER = 3
"""Cycle in which the header enters: after the reset, the queries with the start, and the run."""
FIRST_PASS = HEADER + 2
"""Cycle in which the first payload beat reaches the lanes."""
END = 90
"""Cycle by which every log-mass has left."""


class Block:
    """INT4 (``int4`` = 1) or INT8 rows of 64 values; of its tokens the first ``tokens`` may exist (m is free)."""

    def __init__(self, int4: int, tokens: int, bug: tuple[str, str] | None = None) -> None:
        self.int4, self.tokens = int4, tokens
        self.row = 1 if int4 else 2
        self.slots = 2 if int4 else 1
        self.beats = 8 << self.row
        self.stage = Stage("nkv_score", *FILES, replace=bug, split=True)
        self.bits, self.rtl = self.stage.bits, self.stage.rtl
        self.bits.abstract_products = True
        self.steps: list[tuple[str, int, float]] = []
        self._control()
        self.queries = [octets(self.bits, self.stage.input("query_beat", 1 + head)) for head in range(GROUP)]
        self.header = octets(self.bits, self.stage.input("beat", HEADER))
        self.payload = [octets(self.bits, self.stage.input("beat", HEADER + 1 + i)) for i in range(self.beats)]

    def _control(self) -> None:
        stage, bits = self.stage, self.bits
        stage.fix(start=0, query_write=0, run_valid=0, beat_valid=0, beat_error=0, mass_ready=1, write_bank=0)
        stage.fix(query_part=0, query_width=1, query_int4=self.int4)
        fields = ((4, 0), (1, 0), (17, 1), (12, 0), (1, self.int4), (2, 1), (3, self.row), (5, GROUP), (1, 0), (64, 0))
        stage.fixed["request"] = bits.concat([bits.const(width, value) for width, value in fields])
        stage.give(0, rst_n=0)
        for head in range(GROUP):
            stage.give(1 + head, query_write=1, query_head=head)
        stage.give(1, start=1)
        stage.give(HEADER - 1, run_valid=1, run=self._run())
        m = [bits.var(8, f"m{token}") if token < self.tokens else bits.const(8, 0) for token in range(TOKENS)]
        shape = [bits.const(8, 4 if self.int4 else 8), bits.const(8, 2)]
        rest = [bits.var(8, f"header{i}") for i in range(34, 64)]
        stage.give(HEADER, beat_valid=1, beat=bits.concat([*m, *shape, *rest][::-1]))
        for i in range(self.beats):
            stage.give(HEADER + 1 + i, beat_valid=1)

    def _run(self) -> Term:
        """The run's record: coefficients of the heads that exist are free, one block, no error."""
        bits = self.bits
        self.coefficients = [
            tuple(bits.var(width, f"{name}{head}") for name, width in (("c", 16), ("r", 6), ("b", 32)))
            for head in range(16)
        ]
        parts = [value[which] for which in (2, 0, 1) for value in self.coefficients[::-1]]
        return bits.concat([*parts, bits.const(17, 1), bits.const(1, 1), bits.const(4, 0)])

    # ---- queries ---------------------------------------------------------------------------------

    def prove(self, name: str, pairs: Sequence[tuple[Term, Term]], assume: Sequence[Term] = ()) -> None:
        """Find every pair equal; its name, the number of pairs and the seconds are kept."""
        started = time.monotonic()
        difference = self.bits.find_difference(pairs, assume)
        self.steps.append((name, len(pairs), time.monotonic() - started))
        assert difference is None, f"{name}: they differ for {difference}"

    def state(self, name: str, cycle: int, head: int, width: int) -> Term:
        """Element ``head`` of a register array that goes through ports."""
        return self.rtl.state(self.element(name, head, width), cycle)

    def cut(self, name: str, cycle: int, head: int, width: int, label: str) -> Term:
        """Let that element be a free vector from ``cycle`` on; returns it."""
        free = self.bits.var(width, f"{label}@{cycle}.{head}")
        self.rtl.set_state(self.element(name, head, width), cycle, free)
        return free

    @staticmethod
    def element(name: str, head: int, width: int) -> str:
        """The part of a register array that goes through ports which belongs to ``head``."""
        low = (HEADS - 1 - head) * width
        return f"{name}[{low + width - 1}:{low}]"

    def implies(self, condition: Term, then: Term) -> Term:
        """A bit: not ``condition``, or ``then``."""
        return self.bits.either(self.bits.op(Kind.BV_NOT, condition), then)

    def exists(self, token: int) -> Term:
        """A bit: the token's m is not zero."""
        return self.bits.op(Kind.DISTINCT, self.header[token], self.bits.const(8, 0))

    def masses(self) -> list[Term]:
        """The log-masses that leave, in order, as the RTL's records."""
        found = []
        for cycle in range(HEADER, END):
            valid = self.rtl.output("mass_valid", cycle)
            assert valid.is_value(), f"whether a log-mass leaves in cycle {cycle} depends on data"
            if int(valid.value(10)):
                found.append(self.rtl.output("mass", cycle))
        return found
