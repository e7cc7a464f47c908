"""The code generator for CUDA: source of functions that a grid of threads runs."""
