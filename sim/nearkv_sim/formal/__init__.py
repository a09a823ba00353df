"""Proofs about the RTL: every ``fpga/formal/prove_*.sv``, a module that drives a block with any inputs and asserts what
the block promises.

``python -m nearkv_sim.formal [NAME…]`` decides each with yosys-smtbmc and bitwuzla: bounded model checking from reset
to a stated depth, then for every length of time by k-induction. ABC's property-directed reachability, which finds its
invariants itself, confirms the small ones.
"""

from nearkv_sim.formal.pdr import reach
from nearkv_sim.formal.plan import PLANS, Plan, Proof, proofs
from nearkv_sim.formal.smtbmc import bound, cover, induct
from nearkv_sim.formal.verdict import Verdict

__all__ = ["PLANS", "Plan", "Proof", "Verdict", "bound", "cover", "induct", "proofs", "reach"]
