"""
Policies for the order of tasks, by name: ours, and plug-ins of the kind `task-order`.

A policy is a function of an `OrderRequest` that returns the numbers of all tasks, each
after those that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from penstock.lowering.algorithms.list_scheduling import Job
from penstock.lowering.algorithms.ordering.parallel import (
    Part,
    parallel_order,
    shortest_order,
)
from penstock.lowering.algorithms.ordering.problem import Order, Problem, positions
from penstock.lowering.algorithms.ordering.strategies import early_order, memory_order
from penstock.plugins import PlugIn, plugin_of

KIND = "task-order"


@dataclass
class OrderRequest:
    """The tasks of a plan that are to be ordered, and what is known of them."""

    problem: Problem
    """The values that each task reads and makes, with their bytes."""
    names: Sequence[str]
    """The names of the tasks."""
    budget: int
    """The effects of tasks that a search may look at."""
    parts: Sequence[Part]
    """The op that each task does a part of, and its device."""
    is_early: Sequence[bool]
    """Whether each task copies, or is part of a collective."""
    is_parallel: bool
    """Whether several devices compute."""
    time_model: Callable[[], Sequence[Job]]
    limit: int = field(default=0, init=False)
    """The bytes that no order can do without, as far as a policy has found out."""

    @cached_property
    def jobs(self) -> Sequence[Job]:
        """The time of each task, the tasks that it waits for, and its stream."""
        return self.time_model()

    @property
    def is_timed(self) -> bool:
        """Whether a policy has asked for times."""
        return "jobs" in self.__dict__


Policy: TypeAlias = Callable[[OrderRequest], Order]


def by_memory(request: OrderRequest) -> Order:
    """The fewest bytes alive at once; on several devices, bytes times time."""
    if request.is_parallel:
        return parallel_order(
            request.problem, request.jobs, request.parts, request.budget
        )
    order, request.limit = memory_order(request.problem, request.budget)
    return order


def by_early_updates(request: OrderRequest) -> Order:
    """The order that there is, but what frees its bytes runs as soon as it can."""
    return early_order(request.problem)


def by_overlap(request: OrderRequest) -> Order:
    """The order that ends first, with times as they are modelled or measured."""
    return shortest_order(request.problem, request.jobs, request.is_early)


def by_source(request: OrderRequest) -> Order:
    """The order that there is."""
    return request.problem.source


BUILT_IN: Mapping[str, Policy] = {
    "early-updates": by_early_updates,
    "memory": by_memory,
    "overlap": by_overlap,
    "source": by_source,
}


def order_policy(name: str) -> Policy:
    """The policy of a name. Raises `PluginError` if there is none."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    plugin = plugin_of(KIND, name)

    def policy(request: OrderRequest) -> Order:
        order = plugin.integers(plugin.call(request))
        check_order(plugin, request, order)
        return order

    return policy


def check_order(plugin: PlugIn, request: OrderRequest, order: Order) -> None:
    """Raise `PluginError` unless tasks are listed once, each after all it needs."""
    names, problem = request.names, request.problem
    if strange := sorted({*order} - {*problem.source}):
        plugin.refuse(f"lists task {strange[0]}, but there are {len(names)} tasks")
    if missing := sorted({*problem.source} - {*order}):
        plugin.refuse(f"does not list task {missing[0]} ('{names[missing[0]]}')")
    if len(order) > len(names):
        twice = next(task for task in problem.source if order.count(task) > 1)
        plugin.refuse(f"lists task {twice} ('{names[twice]}') twice")
    position = positions(order)
    for task in order:
        for other in problem.before[task]:
            if position[other] > position[task]:
                plugin.refuse(
                    f"lists '{names[task]}' before '{names[other]}', which it needs"
                )
