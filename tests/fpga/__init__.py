"""Tests of the way from kernel sources to a bitstream, as far as a machine without Vitis can check it."""
