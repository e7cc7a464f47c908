"""Benchmarks: peers side by side, compile time, start, memory and the executor."""
