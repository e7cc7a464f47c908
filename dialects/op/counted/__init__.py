"""Ops with as many results as data say, and the heap sort that they share."""
