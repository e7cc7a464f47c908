"""Fault injection and doubles of CUDA, for tests."""
