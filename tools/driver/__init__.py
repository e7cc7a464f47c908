"""
The driver: parsing, verification, pass pipelines, and diagnostics.
"""
