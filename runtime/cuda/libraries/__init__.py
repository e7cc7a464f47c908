"""cuBLAS and cuDNN for stages of kernels."""
