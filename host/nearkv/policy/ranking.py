"""What a policy may ask for beyond the selection; the pool offers each to the policies that have the method."""

from __future__ import annotations

from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt


@runtime_checkable
class UsesRanking(Protocol):
    """A policy that learns from the attention of blocks that were not selected, too."""

    def rank(self, layer: int, ranked: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Blocks that the scorer ranked this step, selected or not, [S, m] with priorities, best first, -1 padded.

        Called right before :meth:`Policy.observe` of the same step. A scorer returns more than k blocks at the cost
        of 8 bytes each; as many as the stream's share of the pool holds are worth asking for.
        """


@runtime_checkable
class UsesPlacement(Protocol):
    """A policy that depends on which blocks are resident."""

    def placed(self, layer: int, resident: npt.NDArray[np.int32]) -> None:
        """Blocks that stay hot after this step, [S, m], -1 padded. Called after the values were acted on."""


def uses_ranking(policy: object) -> TypeGuard[UsesRanking]:
    """Whether ``policy`` has :meth:`UsesRanking.rank`. Asked at every step of every layer, where isinstance is slow."""
    return hasattr(policy, "rank")
