"""The JIT: generated source to machine code, in other processes, kept on disk."""
