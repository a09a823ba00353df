"""What one engine says about one proof."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """``holds`` is None where nothing was decided in the time given.

    ``cycles`` is how many cycles from reset were covered, None for every length of time. ``failed`` names the
    assertions that fail, as far as the engine says, ``trace`` the waveform (VCD) of the failure. ``detail`` is how the
    engine got there, like the k of an induction. ``goal`` is what was counted: assertions, or covers reached.
    ``seconds`` include reading the design.
    """

    name: str
    engine: str
    holds: bool | None
    assertions: int
    cycles: int | None
    seconds: float
    detail: str = ""
    failed: tuple[str, ...] = ()
    trace: str = ""
    goal: str = "assertions"

    def line(self) -> str:
        """One line for a person: name, engine, depth, result, seconds."""
        depth = "every length of time" if self.cycles is None else f"{self.cycles} cycles from reset"
        good = "reached" if self.goal == "covers" else "proved"
        result = {True: good, False: "FAILED", None: "UNDECIDED"}[self.holds]
        if self.failed:
            result += f" ({', '.join(self.failed)})"
        if self.trace:
            result += f", waves in {self.trace}"
        how = f"{self.engine} {self.detail}".strip()
        return f"{self.name:<12} {how:<28} {depth:<22} {self.assertions:>2} {self.goal} {result} {self.seconds:.1f} s"
