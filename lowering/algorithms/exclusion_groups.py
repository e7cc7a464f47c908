"""
The groups of jobs that never run at the same time, as far as memory counts on it
(OF-67, OF-68 of docs/sources.md).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

STRATEGIES = ("custom", "memory", "parallelism", "writers")
"""The strategies for jobs that may run in parallel."""


def exclusion_groups(exclusive: Sequence[Collection[int]]) -> list[list[int]]:
    """
    Groups of jobs that never run at the same time. `exclusive` has for each job those
    that it never runs with. In order, a job joins the first group that contains no job
    it may run in parallel with, or opens a new one.
    """
    groups: list[list[int]] = []
    for job, others in enumerate(exclusive):
        fits = (group for group in groups if all(other in others for other in group))
        if (group := next(fits, None)) is None:
            groups.append([job])
        else:
            group.append(job)
    return groups


def exclusive_by_name(names: Sequence[Collection[str]]) -> list[set[int]]:
    """
    For each job those that share a name with it, which are never run together; `names`
    has for each job those of its variables, inputs and outputs.
    """
    users: dict[str, list[int]] = {}
    for job, own in enumerate(names):
        for name in own:
            users.setdefault(name, []).append(job)
    found: list[set[int]] = [set() for _ in names]
    for jobs in users.values():
        for job in jobs:
            found[job].update(jobs)
    for job, others in enumerate(found):
        others.discard(job)
    return found


def exclusive_by_writing(
    names: Sequence[Collection[str]], written: Sequence[Collection[str]]
) -> list[set[int]]:
    """
    For each job those that share a name with it which one of the two writes; `written`
    has for each job those of its names that it writes.
    """
    users: dict[str, list[int]] = {}
    for job, own in enumerate(names):
        for name in own:
            users.setdefault(name, []).append(job)
    found: list[set[int]] = [set() for _ in names]
    for job, own in enumerate(written):
        for other in (x for name in own for x in users[name] if x != job):
            found[job].add(other)
            found[other].add(job)
    return found


def parse_groups(text: str) -> list[list[str]]:
    """The groups of names in a text such as `"train,eval;a,b"`."""
    groups = (part.split(",") for part in text.split(";"))
    stripped = ([name.strip() for name in group] for group in groups)
    return [[name for name in group if name] for group in stripped if any(group)]
