"""Canonicalization patterns, one module a dialect."""
