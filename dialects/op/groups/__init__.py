"""`op.fused`, and the forms that its groups of ops take in kernels."""
