"""The loader: memory, variables and devices of an executable."""
