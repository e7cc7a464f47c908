"""The conversions from level to level."""
