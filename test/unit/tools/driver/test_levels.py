"""The levels of passes, by their names."""

import pytest

from penstock.lowering import get_all_passes
from penstock.lowering.analysis.levels import Level, level_of


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("job-place", Level.JOB),
        ("op-fold-constants", Level.JOB),
        ("verify-jobs", Level.JOB),
        ("convert-job-to-plan", Level.JOB),
        ("plan-order-tasks", Level.PLAN),
        ("regst-plan-memory", Level.PLAN),
        ("verify-memory", Level.PLAN),
        ("convert-plan-to-launch", Level.PLAN),
        ("launch-form-waves", Level.PROGRAM),
        ("verify-program", Level.PROGRAM),
        ("canonicalize", None),
        ("convert-scf-to-cf", None),
    ],
)
def test_level_of_a_pass(name: str, level: Level | None):
    assert level_of(name) == level


def test_every_pass_of_ours_has_a_level():
    assert [name for name in get_all_passes() if level_of(name) is None] == []
