"""ONNX models as jobs. It needs the extra `onnx`."""
