"""Helpers of all dialects: tensors, kernel bodies, diagnostics, element types."""
