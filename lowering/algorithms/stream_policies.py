"""
Policies for the streams of tasks, by name: ours, and plug-ins of the kind
`stream-policy`.

A policy is a function of a `StreamRequest` that returns pairs of a task and its lane,
in the order in which the tasks are listed then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

from penstock.lowering.algorithms.list_scheduling import (
    Dispatch,
    Job,
    Schedule,
    best_of,
    by_level,
    in_order,
    scheduled_on,
)
from penstock.plugins import PlugIn, plugin_of

KIND = "stream-policy"

NAIVE = "naive"
"""The policy that needs no times, and that all others are compared with."""


class StreamRequest(NamedTuple):
    """The tasks of a plan that are to be given streams."""

    jobs: Sequence[Job]
    """The time of each task, the tasks that it waits for, and the lanes it may have."""
    names: Sequence[str]
    """The names of the tasks."""
    naive: Sequence[int]
    """The lane of each task by the policy `naive`."""
    lanes: Sequence[str]
    """The stream that each lane is."""


Policy: TypeAlias = Callable[[StreamRequest], Schedule]


def naive(request: StreamRequest) -> Schedule:
    """The stream of the first task whose result is read, else the emptiest one."""
    return scheduled_on(request.jobs, request.naive)


def critical_path(request: StreamRequest) -> Schedule:
    """The schedule of four that ends first, by the times of tasks."""
    jobs = request.jobs
    others = in_order(jobs, range(len(jobs))), Dispatch(jobs).run()
    return best_of((naive(request), *others, in_order(jobs, by_level(jobs))))


BUILT_IN: Mapping[str, Policy] = {"critical-path": critical_path, NAIVE: naive}


def stream_policy(name: str) -> Policy:
    """The policy of a name. Raises `PluginError` if there is none."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    plugin = plugin_of(KIND, name)
    return lambda request: schedule_of(plugin, request, plugin.call(request))


def schedule_of(plugin: PlugIn, request: StreamRequest, found: object) -> Schedule:
    """
    The schedule that a plug-in has returned. Raises `PluginError` unless each task has
    one of its lanes, after all tasks that it waits for.
    """
    names, jobs = request.names, request.jobs
    schedule = Schedule(jobs)
    for task, lane in pairs_of(plugin, found):
        if not 0 <= task < len(jobs):
            plugin.refuse(f"lists task {task}, but there are {len(jobs)} tasks")
        if task in schedule.lane:
            plugin.refuse(f"lists task {task} ('{names[task]}') twice")
        if lane not in jobs[task].lanes:
            able = ", ".join(map(str, jobs[task].lanes))
            plugin.refuse(f"puts '{names[task]}' on lane {lane}, not one of {able}")
        if late := [other for other in jobs[task].after if other not in schedule.lane]:
            plugin.refuse(
                f"lists '{names[task]}' before '{names[late[0]]}', which it waits for"
            )
        schedule.add(task, lane)
    if missing := sorted({*range(len(jobs))} - {*schedule.lane}):
        plugin.refuse(f"does not list task {missing[0]} ('{names[missing[0]]}')")
    return schedule


def pairs_of(plugin: PlugIn, found: object) -> list[tuple[int, int]]:
    """The pairs of integers that a plug-in has returned."""
    try:
        rows = list(cast("Iterable[object]", found))
    except TypeError as error:
        plugin.refuse(f"returns no list of pairs: {error}")
    for row in rows:
        if not isinstance(row, Sequence) or len(cast("Sequence[object]", row)) != 2:
            plugin.refuse(f"returns {row!r}, no pair of a task and its lane")
    return [(task, lane) for task, lane in map(plugin.integers, rows)]
