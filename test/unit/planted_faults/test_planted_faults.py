"""
No plan or program that the verifiers accept computes anything else than its jobs.

The faults are new ones in each run.
"""

from __future__ import annotations

import random
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from draws import fresh_seed
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.utils.diagnostics import LocatedPassFailure

sys.path.insert(0, str(Path(__file__).parent.parent))

from planted_faults.judging import checks_of, fault_of, launched, refusal
from planted_faults.planting import plant, planted
from planted_faults.subjects import random_subject

COUNT = 300


@pytest.mark.slow
def test_no_planted_fault_is_accepted_and_wrong():
    *_, tally = plant(fresh_seed(), COUNT, of_each=30)
    print(tally)
    assert not tally.holes
    assert sum(tally.results.values()) == COUNT
    assert tally.results["refused"] > COUNT // 4
    assert tally.results["right"] > COUNT // 20


@pytest.mark.slow
def test_the_machine_goes_wrong_where_verifiers_refuse():
    rng = random.Random(7)
    refused = wrong = 0
    for number in range(4):
        subject = random_subject(random.Random(number))
        for _ in range(10):
            module, _, broken = planted(subject, rng)
            if broken is not None or not refusal(module, checks_of(subject)):
                continue
            refused += 1
            with suppress(LocatedPassFailure, VerifyException):
                program, works, _ = launched(subject, module)
                faults = (fault_of(subject, program, works, rng) for _ in range(4))
                wrong += any(fault is not None for fault in faults)
    assert refused > 10
    assert wrong > refused // 2
