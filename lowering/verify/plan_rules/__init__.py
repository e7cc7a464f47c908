"""The rules of `verify-plan`."""
