"""The command line: ``nearkv generate``, ``compare``, ``demo`` and what other parts mount."""

from nearkv.cli.main import main

__all__ = ["main"]
