"""The memory map, a page of blocks over time."""
