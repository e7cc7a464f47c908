"""
Levels of IR: those that a module has ops of, and that which a pass works on.

The name of a pass says its level: passes inside one are `<dialect>-<verb>-<object>`,
those between levels `convert-<a>-to-<b>`, and checks `verify-<property>`.
"""

from __future__ import annotations

from enum import IntEnum

from xdsl.ir import Operation


class Level(IntEnum):
    """A level of IR; one with a higher number is made of the one before."""

    JOB = 1
    PLAN = 2
    PROGRAM = 3

    @property
    def text(self) -> str:
        """The level in words, with the ops that it is known by."""
        return _TEXTS[self]


_TEXTS = {
    Level.JOB: "a job (job.job, or ops of op)",
    Level.PLAN: "a plan (plan.plan)",
    Level.PROGRAM: "a launch program (launch.program)",
}

_DIALECTS = {
    "job": Level.JOB,
    "op": Level.JOB,
    "plan": Level.PLAN,
    "regst": Level.PLAN,
    "kernel": Level.PROGRAM,
    "launch": Level.PROGRAM,
}

_CHECKS = {
    "verify-deadlock": Level.PLAN,
    "verify-jobs": Level.JOB,
    "verify-memory": Level.PLAN,
    "verify-plan": Level.PLAN,
    "verify-program": Level.PROGRAM,
    "verify-ticks": Level.PLAN,
}


def level_of(pass_name: str) -> Level | None:
    """The level that a pass works on; None for one that works on any IR."""
    if pass_name in _CHECKS:
        return _CHECKS[pass_name]
    start, _, rest = pass_name.partition("-")
    if start == "raise":
        start = rest.rpartition("-to-")[2]
    elif start == "convert":
        start = rest.partition("-to-")[0]
    return _DIALECTS.get(start)


def is_check(pass_name: str) -> bool:
    """Whether a pass only checks what is of its level."""
    return pass_name in _CHECKS


def levels_in(module: Operation) -> set[Level]:
    """The levels that a module has ops of, also in functions and modules inside."""
    found: set[Level] = set()
    for region in module.regions:
        for block in region.blocks:
            for op in block.ops:
                level = _DIALECTS.get(op.name.partition(".")[0])
                found |= levels_in(op) if level is None else {level}
    return found
