"""The actor executor: it loads a launch program and runs it."""
