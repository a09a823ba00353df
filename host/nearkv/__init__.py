"""nearkv: a language model's KV cache on a computational drive, with the blocks that matter in DRAM."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearkv.attention import attach
    from nearkv.cache.config import TierConfig
    from nearkv.cache.tiered import TieredCache
    from nearkv.errors import MemoryLimitError, UnsupportedError

__version__ = "0.1.0"

__all__ = ["MemoryLimitError", "TierConfig", "TieredCache", "UnsupportedError", "attach"]

_HOMES = {
    "MemoryLimitError": "nearkv.errors",
    "TierConfig": "nearkv.cache.config",
    "TieredCache": "nearkv.cache.tiered",
    "UnsupportedError": "nearkv.errors",
    "attach": "nearkv.attention",
}


def __getattr__(name: str) -> Any:
    # Loaded when first used: the golden model must not cost its users (RTL benches) torch and transformers.
    if name not in _HOMES:
        raise AttributeError(f"module 'nearkv' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
