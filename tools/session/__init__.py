"""Sessions: a model compiled, loaded and run; saved plans and checkpoints."""
