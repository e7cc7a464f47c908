"""The database of measured kernels and its keys."""
