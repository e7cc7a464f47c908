"""
The number of cases that tests draw at random: few in each run of the tests, which all
wait for, and any number on demand.

`PENSTOCK_SWEEP_CASES=n` has each test draw n times as many.
"""

from __future__ import annotations

import os

TIMES = int(os.environ.get("PENSTOCK_SWEEP_CASES", "1"))


def draws(few: int) -> int:
    """The number of cases of a test of which so few are drawn by default."""
    return few * TIMES
