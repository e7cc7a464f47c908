"""The verifiers, independent of the passes."""
