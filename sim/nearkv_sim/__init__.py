"""Simulation of the score kernel: cocotb benches, stimulus, coverage and throughput (``docs/kernel-interface.md``)."""
