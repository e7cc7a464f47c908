"""
Random cases of tests: few in each run of the tests, which all wait for, and any number
on demand.

`PENSTOCK_SWEEP_CASES=n` has each test draw n times as many. A test that fails shows its
seed, and `PENSTOCK_SWEEP_SEED=seed` has it draw the same again.
"""

from __future__ import annotations

import os
from random import Random, randrange

import numpy as np

TIMES = int(os.environ.get("PENSTOCK_SWEEP_CASES", "1"))


def draws(few: int) -> int:
    """The number of cases of a test of which so few are drawn by default."""
    return few * TIMES


_following: dict[str, Random] = {}
"""The seeds of tests behind their first ones, which say them."""


def fresh_seed() -> int:
    """
    A seed for random numbers of the test that runs. Its first one is printed, which
    the report of a failure shows.
    """
    test, _, _ = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")
    if test in _following:
        return _following[test].getrandbits(32)
    seed = int(os.environ.get("PENSTOCK_SWEEP_SEED", randrange(1 << 32)))
    print(f"PENSTOCK_SWEEP_SEED={seed}")
    if test:
        _following[test] = Random(seed)
    return seed


def fresh() -> np.random.Generator:
    """Random numbers of a test that are others in each run."""
    return np.random.default_rng(fresh_seed())
