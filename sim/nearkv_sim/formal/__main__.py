"""``python -m nearkv_sim.formal [NAME…]``: decide the proofs that are named, or all, a line per proof and engine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace

from nearkv_sim.formal import PLANS, Proof, Verdict, bound, cover, induct, proofs, reach
from nearkv_sim.toolchain import BUILD


def decide(name: str) -> Iterator[Verdict]:
    """The verdicts on a proof, one engine after the other; a failure ends them."""
    proof, plan = Proof(name), PLANS[name]
    verdict = bound(proof, plan.depth, traces=BUILD / "formal")
    yield verdict
    if verdict.holds is not True:
        return
    if plan.steady is not None:
        yield bound(replace(proof, steady=True), plan.steady, traces=BUILD / "formal")
    if plan.covers is not None:
        yield cover(proof, plan.covers)
    if plan.induction is not None:
        yield induct(proof, plan.induction)
    if plan.reach is not None:
        yield reach(proof, plan.reach)


def main() -> int:
    """Run the proofs that were named, or all; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m nearkv_sim.formal", description="Prove properties of the RTL.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"proofs to run: {', '.join(proofs())} (all)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in proofs()]
    if unknown:
        parser.error(f"no proof is called '{unknown[0]}' (there are {', '.join(proofs())})")
    held = True
    for name in arguments.names or proofs():
        try:
            for verdict in decide(name):
                held &= verdict.holds is True
                print(verdict.line(), flush=True)
        except ImportError as error:
            print(f"error: proofs need the package {error.name}: pip install 'nearkv[sim]'", file=sys.stderr)
            return 1
        except RuntimeError as error:
            print(f"error: {name}: {error}", file=sys.stderr)
            return 1
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
