"""Zynq UltraScale+ boards through PYNQ: the score kernel as an overlay, the board's DRAM as device DRAM."""
