"""The passes over `op`: fusion, folding, shapes, layouts."""
