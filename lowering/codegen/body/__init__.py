"""Kernel bodies as statements, for all targets of the code generator."""
