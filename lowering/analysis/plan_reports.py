"""Attributes of a plan in which passes say what their choices cost."""

from __future__ import annotations

WAVES = "waves"
"""The attribute of a plan that says what its waves cost in memory."""


GIVEN_UP = "given_up"
"""The attribute of a plan that says what its streams cost beside one thread."""
