"""The functions that source of CUDA kernels calls."""
