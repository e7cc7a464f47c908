"""The driver: parses, verifies, runs passes, tells diagnostics."""
