"""Models of PyTorch with random weights, exported to ONNX: nothing is downloaded."""
