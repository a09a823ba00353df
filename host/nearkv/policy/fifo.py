"""First in, first out: a block's value is the step at which it became resident. A baseline."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearkv.policy.base import register
from nearkv.policy.table import BlockTable


@register("fifo")
class FirstInFirstOut:
    """A block keeps its stamp while it is resident, however often it is selected."""

    def __init__(self) -> None:
        self._since = BlockTable(np.int64, fill=-1)
        self._step: dict[int, int] = {}

    def observe(self, layer: int, selected: npt.NDArray[np.int32], priority: npt.NDArray[np.uint32]) -> None:
        """Only time passes."""
        self._step[layer] = self._step.get(layer, 0) + 1

    def values(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The stamp, or this step for a block that is just coming in."""
        since = self._since.at(layer, blocks)
        return np.where(blocks >= 0, np.where(since >= 0, since, self._step.get(layer, 0)), -1)

    def placed(self, layer: int, resident: npt.NDArray[np.int32]) -> None:
        """Keep the stamps of residents, stamp newcomers, forget the rest."""
        stamp = self.values(layer, resident)
        self._since.of(layer, resident)[:] = -1
        self._since.put(layer, resident, stamp)

    def forget(self, layer: int, stream: int) -> None:
        """Forget the stamps of one stream."""
        self._since.forget(layer, stream)
