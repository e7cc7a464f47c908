"""Algorithms on plain values: graphs, packing, ordering, deadlock."""
