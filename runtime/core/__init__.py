"""The compiled actor scheduler."""
