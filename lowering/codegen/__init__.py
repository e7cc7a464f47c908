"""How the source text of kernels is printed, by the target `numba`."""
