"""Which blocks stay hot: the policy seam, and the policies behind it, one per file."""

from nearkv.policy.base import Policy, create, names, register
from nearkv.policy.recency import Recency

__all__ = ["Policy", "Recency", "create", "names", "register"]
