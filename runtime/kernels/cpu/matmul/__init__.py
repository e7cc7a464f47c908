"""The matmul micro-kernels and the packing of their operands."""
