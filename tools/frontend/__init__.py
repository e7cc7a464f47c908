"""The front ends: Python functions and ONNX models."""
