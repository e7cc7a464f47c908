"""Analyses of the IR, and edits of it, that several passes and verifiers share."""
