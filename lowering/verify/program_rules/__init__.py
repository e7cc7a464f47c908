"""The rules of `verify-program`."""
