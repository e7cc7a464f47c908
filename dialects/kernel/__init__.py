"""The builder of kernels' bodies."""
