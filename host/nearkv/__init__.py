"""nearkv: a language model's KV cache on a computational drive, with the blocks that matter in DRAM."""

from nearkv.attention import attach
from nearkv.cache.config import TierConfig
from nearkv.cache.tiered import TieredCache
from nearkv.errors import MemoryLimitError, UnsupportedError

__version__ = "0.1.0"

__all__ = ["MemoryLimitError", "TierConfig", "TieredCache", "UnsupportedError", "attach"]
