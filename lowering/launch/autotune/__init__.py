"""Alternatives for kernels, what was measured of them, and which one is taken."""
