"""Cards: finds SmartSSDs through XRT's tools, and the drive on each. How-to: docs/nvme.md.

``XrtTool`` reads xrt-smi's and xbutil's reports; ``drives_beside`` pairs a card with its drive; ``cli.app`` is
``nearkv device``.
"""

from nearkv_drivers.cards.model import Card, CardError, Clock, Link, ListedCard, P2p, Temperature
from nearkv_drivers.cards.topology import drives_beside
from nearkv_drivers.cards.xrt import XrtTool, find_tool

__all__ = [
    "Card",
    "CardError",
    "Clock",
    "Link",
    "ListedCard",
    "P2p",
    "Temperature",
    "XrtTool",
    "drives_beside",
    "find_tool",
]
