"""The reports and pages: memory, task graph, reference."""
