"""How much is hot, how much each side scores, and where blocks lie: one idea per file."""
