"""The functions that source of CPU kernels calls."""
