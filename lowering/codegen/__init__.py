"""The code generator: target `numba` prints the source text of kernels."""
