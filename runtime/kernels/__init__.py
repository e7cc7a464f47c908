"""The functions that generated source calls."""
