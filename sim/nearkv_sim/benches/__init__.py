"""cocotb test modules: one per RTL module, and one for the kernel."""
