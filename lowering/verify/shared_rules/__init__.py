"""The rules of `verify-plan` and `verify-program`, over what both have in common."""
