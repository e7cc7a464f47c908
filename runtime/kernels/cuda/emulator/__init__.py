"""CUDA's functions in Python, where there is no GPU."""
