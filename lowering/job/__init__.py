"""The passes over `job`: placement, SBP, boxing, push and pull."""
