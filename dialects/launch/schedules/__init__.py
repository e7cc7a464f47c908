"""The schedule attributes of kernels, one for each target and kind of stage."""
