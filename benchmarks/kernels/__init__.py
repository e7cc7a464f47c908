"""Sources of kernels, by the programs that they are of: what `kernel_sources` lists."""
