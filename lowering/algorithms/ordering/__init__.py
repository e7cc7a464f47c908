"""Orders of tasks and the bytes that are alive in them: plain functions, no IR."""
