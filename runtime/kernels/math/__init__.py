"""The elementary functions of floats."""
