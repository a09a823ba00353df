"""The score contract, version 1: a NumPy golden model that follows ``docs/contract.md`` line by line.

Written to be read and to be compared against; the runtime uses ``nearkv_drivers.native`` for speed.
"""

from nearkv.contract.encode import block_crc, can_adopt, encode_segment, pack_blocks, seal_blocks
from nearkv.contract.kernel import fold_total, priorities, score, top_k
from nearkv.contract.query import encode_query
from nearkv.contract.rotate import rotate
from nearkv_drivers.wire import BLOCK_TOKENS, EMPTY, ContractError, Query, Scores, Segment, block_bytes, row_width

__all__ = [
    "BLOCK_TOKENS",
    "EMPTY",
    "ContractError",
    "Query",
    "Scores",
    "Segment",
    "block_bytes",
    "block_crc",
    "can_adopt",
    "encode_query",
    "encode_segment",
    "fold_total",
    "pack_blocks",
    "priorities",
    "rotate",
    "row_width",
    "score",
    "seal_blocks",
    "top_k",
]
