"""One number per block of every stream of a layer, grown as blocks appear: what most policies keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class BlockTable:
    """Arrays [S, n] by layer; n doubles when a higher block index appears.

    The last column belongs to no block. Block -1 falls into it (that of the row before), so lookups need no mask.
    """

    def __init__(self, dtype: type[np.generic], fill: int = 0) -> None:
        self._dtype, self._fill = np.dtype(dtype), fill
        self._layers: dict[int, npt.NDArray[Any]] = {}
        self._rows: dict[int, npt.NDArray[np.int64]] = {}

    def of(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
        """The array of ``layer``, large enough for every index in ``blocks`` [S, m]; changes to it stay."""
        need = int(blocks.max(initial=0)) + 2
        table = self._layers.get(layer)
        if table is None or table.shape[1] < need:
            width = max(need, 64) if table is None else max(need, 2 * table.shape[1])
            grown = np.full((blocks.shape[0], width), self._fill, self._dtype)
            if table is not None:
                grown[:, : table.shape[1] - 1] = table[:, :-1]  # the last column holds what was put to no block
            self._layers[layer] = table = grown
            self._rows[layer] = np.arange(0, grown.size, width)[:, None]
        return table

    def put(self, layer: int, blocks: npt.NDArray[np.int32], values: npt.ArrayLike) -> None:
        """Set the entries of ``blocks`` [S, m] (-1: none) to ``values``, of the same shape or one number."""
        table = self.of(layer, blocks)
        table.reshape(-1)[self._rows[layer] + blocks] = values

    def at(self, layer: int, blocks: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
        """Entries of ``blocks`` [S, m]; those of -1 are meaningless."""
        table = self.of(layer, blocks)
        return table.take(self._rows[layer] + blocks)

    def forget(self, layer: int, stream: int) -> None:
        """Reset one stream of ``layer``."""
        if layer in self._layers:
            self._layers[layer][stream] = self._fill

    @property
    def nbytes(self) -> int:
        """Bytes of the entries of all tables."""
        return sum(table[:, :-1].nbytes for table in self._layers.values())
