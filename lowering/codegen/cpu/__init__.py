"""The code generator for the CPU."""
