"""
Policies for registers that lie on others, by name: ours, and plug-ins of the kind
`alias-policy`.

A policy is a function of the `Candidate`s of one task, which returns the numbers of
those that are to be tried, the best first. Whether one may be used is for the rules of
`regst-alias-registers`, and for `verify-plan`, to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from penstock.plugins import plugin_of

KIND = "alias-policy"

ALL = "all"
"""The policy that is taken where nothing is said."""


class Candidate(NamedTuple):
    """An operand and a result of a task that may share bytes."""

    task: str
    op: str
    """The name of its op, such as `op.relu`."""
    operand: str
    """The register that the task reads."""
    result: str
    """The register that it writes."""
    size: int
    """The bytes of the result."""
    is_view: bool
    """Whether nothing is computed where they share bytes; else one is overwritten."""
    is_hinted: bool
    """Whether a hint on the op asks for it."""


Policy: TypeAlias = Callable[[Sequence[Candidate]], Sequence[int]]


def take_all(candidates: Sequence[Candidate]) -> Sequence[int]:
    """All that is allowed, the largest result first."""
    return range(len(candidates))


def take_none(candidates: Sequence[Candidate]) -> Sequence[int]:
    """Nothing but what ops and hints ask for."""
    return [i for i, candidate in enumerate(candidates) if candidate.is_hinted]


def take_views(candidates: Sequence[Candidate]) -> Sequence[int]:
    """Views, which save the work of a copy, but nothing that is overwritten."""
    return [i for i, x in enumerate(candidates) if x.is_view or x.is_hinted]


BUILT_IN: Mapping[str, Policy] = {
    ALL: take_all,
    "none": take_none,
    "views": take_views,
}


def alias_policy(name: str) -> Policy:
    """The policy of a name. Raises `PluginError` if there is none."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    plugin = plugin_of(KIND, name)

    def policy(candidates: Sequence[Candidate]) -> Sequence[int]:
        chosen = plugin.integers(plugin.call(candidates))
        for number in chosen:
            if not 0 <= number < len(candidates):
                task = f"'{candidates[0].task}', which has {len(candidates)}"
                plugin.refuse(f"takes candidate {number} of {task}")
        if len({*chosen}) < len(chosen):
            plugin.refuse(f"takes a candidate of task '{candidates[0].task}' twice")
        return chosen

    return policy
