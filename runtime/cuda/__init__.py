"""CUDA as a device: driver, graphs, events, libraries."""
