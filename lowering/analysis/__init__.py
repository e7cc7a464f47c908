"""Analyses of the IR that several passes and verifiers share."""
