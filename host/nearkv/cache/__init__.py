"""The tiered KV cache: transformers' view, the hot pool, and the drive side of every layer."""
