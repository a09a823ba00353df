"""An executable ``bitwuzla`` around the package of that name, which holds the solver's library only.

``python -m nearkv_sim.formal.bitwuzla`` answers SMT-LIB 2 on standard input, command by command, as yosys-smtbmc
expects of a solver.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from typing import TextIO


def commands(stream: TextIO) -> Iterator[str]:
    """Whole commands of ``stream`` as soon as their last line is there."""
    text, depth = "", 0
    for line in stream:
        text += line
        depth += line.count("(") - line.count(")")
        if depth == 0 and text.strip():
            yield text
            text = ""


def main() -> None:
    """Read until ``(exit)`` or the end."""
    if "--help" in sys.argv:
        print("usage: bitwuzla --lang smt2 < COMMANDS")
        return
    from bitwuzla import Option, Options, Parser, TermManager

    options = Options()
    options.set(Option.PRODUCE_MODELS, True)
    parser = Parser(TermManager(), options, "smt2", 2)
    process = ctypes.CDLL(None)
    for command in commands(sys.stdin):
        if command.strip() == "(exit)":
            break
        parser.parse(command, False, False)
        process.fflush(None)  # the library answers through C's standard output


if __name__ == "__main__":
    main()
