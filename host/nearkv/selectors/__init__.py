"""Ways to find the blocks that matter to a query, one per file, and a fair measure of how well they do."""

from nearkv.selectors import (
    hierarchical,
    infllm,
    mean_key,
    mean_variance,
    mean_variance_int8,
    oracle,
    quantised,
    quest,
    quest_int8,
    recent,
    shadowkv,
)
from nearkv.selectors.base import Selector, create, names, register
from nearkv.selectors.mass import COMPARED, measure
from nearkv.selectors.summaries import SUMMARIES

__all__ = [
    "COMPARED",
    "SUMMARIES",
    "Selector",
    "create",
    "hierarchical",
    "infllm",
    "mean_key",
    "mean_variance",
    "mean_variance_int8",
    "measure",
    "names",
    "oracle",
    "quantised",
    "quest",
    "quest_int8",
    "recent",
    "register",
    "shadowkv",
]
