"""The pauses of a process between two looks whether another rank has said something."""

from __future__ import annotations

import time

SHORTEST = 0.0002
"""Seconds between looks for an answer that comes soon."""
LOOKS_EACH = 64
"""The fruitless looks after which a pause is twice as long."""
DOUBLINGS = 8
"""The doublings of a pause: rank 0 may compile for long while the others wait."""


def nap(looks: int) -> None:
    """Let others have the core, after so many fruitless looks."""
    time.sleep(SHORTEST * 2 ** min(looks // LOOKS_EACH, DOUBLINGS))
