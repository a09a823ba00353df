"""Tests of the HLS kernel in C simulation, and the helpers that run it."""
