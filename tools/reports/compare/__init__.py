"""Variants of a compilation, measured side by side: `penstock-compare`."""
