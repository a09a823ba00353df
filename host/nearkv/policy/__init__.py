"""Which blocks stay hot: the policy seam, and the policies behind it, one per file."""

from nearkv.policy.base import Policy, create, names, register
from nearkv.policy.fifo import FirstInFirstOut
from nearkv.policy.hit_rate import HitRate
from nearkv.policy.lfu import LeastFrequentlyUsed
from nearkv.policy.lookahead import Lookahead
from nearkv.policy.pin_newest import PinNewest
from nearkv.policy.ranking import UsesPlacement, UsesRanking, uses_ranking
from nearkv.policy.recency import Recency

__all__ = [
    "FirstInFirstOut",
    "HitRate",
    "LeastFrequentlyUsed",
    "Lookahead",
    "PinNewest",
    "Policy",
    "Recency",
    "UsesPlacement",
    "UsesRanking",
    "create",
    "names",
    "register",
    "uses_ranking",
]
