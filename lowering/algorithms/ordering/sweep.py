"""
List scheduling: always run the task that looks best among those that can run.

A task that frees at least as much as it makes goes first, as soon as it fits below what
is allowed to be alive: all that runs later then needs no more than before. So does one
that adds next to nothing, as much may be freed by those that wait for it. Backwards,
from the last task to the first, the same holds of tasks that make at least as much as
they free: those come as late as they can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

from penstock.lowering.algorithms.ordering.problem import Order, Problem, positions

Key: TypeAlias = Callable[[int, int, int, int], tuple[int, ...]]
"""
The rank of a task that can run, lowest first: by its number, the bytes by which it
raises the live ones while it runs and those for good, and the step since which it can.
"""


def by_effect(task: int, rise: int, net: int, since: int) -> tuple[int, ...]:
    """First what adds least for good; of equals what could run last."""
    return net, rise, -since, task


def by_release(task: int, rise: int, net: int, since: int) -> tuple[int, ...]:
    """First what frees most of what it makes."""
    return net - rise, net, -since, task


def by_recency(task: int, rise: int, net: int, since: int) -> tuple[int, ...]:
    """First what could run last: depth first."""
    return -since, net, rise, task


def by_place(order: Sequence[int]) -> Key:
    """First what comes first in an order."""
    place = positions(order)

    def key(task: int, rise: int, net: int, since: int) -> tuple[int, ...]:
        return (place[task],)

    return key


SMALL = 4096
"""
The part of the bytes that are allowed, as one of so many, that counts as nothing:
updates that wait for a few numbers, such as a rate, keep all gradients alive.
"""


class Sweep:
    """One pass over all tasks. `allowed` is in bytes; a task above it raises it."""

    def __init__(
        self, problem: Problem, key: Key, allowed: int = 0, backward: bool = False
    ) -> None:
        self._problem = problem
        self._key = key
        self._allowed = allowed
        self._backward = backward
        self._unlocks = problem.before if backward else problem.after
        waits_for = problem.after if backward else problem.before
        self._missing = [len(others) for others in waits_for]
        self._left = [len(users) for users in problem.users]
        self._rise = [0] * len(problem.tasks)
        self._net = [0] * len(problem.tasks)
        self._saved = [0] * len(problem.tasks)
        self._since = [-1] * len(problem.tasks)
        self._is_done = [False] * len(problem.tasks)
        self._ready: list[tuple[tuple[int, ...], int]] = []
        self._freeing: list[tuple[int, int]] = []
        self._live = 0
        for size, users in zip(problem.sizes, problem.users, strict=True):
            for user in users:
                self._rise[user] += size
                self._net[user] += size if len(users) > 1 else 0

    def run(self) -> Order:
        """All tasks, in an order in which they can run forwards."""
        order: Order = []
        for task, missing in enumerate(self._missing):
            if not missing:
                self._unlock(task, 0)
        while len(order) < len(self._missing):
            task = self._next()
            order.append(task)
            self._do(task, len(order))
        return order[::-1] if self._backward else order

    def _next(self) -> int:
        freeing = self._freeing
        while freeing and self._is_done[freeing[0][1]]:
            heappop(freeing)
        if freeing and self._live + freeing[0][0] <= self._allowed:
            return heappop(freeing)[1]
        while self._is_done[self._ready[0][1]]:
            heappop(self._ready)
        return heappop(self._ready)[1]

    def _unlock(self, task: int, step: int) -> None:
        self._since[task] = step
        self._push(task)

    def _push(self, task: int) -> None:
        rise, net = self._rise[task], self._net[task]
        key = self._key(task, rise, net, self._since[task])
        heappush(self._ready, (key, task))
        if net <= self._allowed // SMALL:
            heappush(self._freeing, (rise, task))

    def _do(self, task: int, step: int) -> None:
        self._is_done[task] = True
        self._allowed = max(self._allowed, self._live + self._rise[task])
        self._live += self._net[task]
        changed: dict[int, None] = {}
        self._use(task, changed)
        missing, since = self._missing, self._since
        for other in self._unlocks[task]:
            missing[other] -= 1
            if not missing[other]:
                self._unlock(other, step)
                changed.pop(other, None)
        for other in changed:
            if since[other] >= 0:
                self._push(other)

    def _use(self, task: int, changed: dict[int, None]) -> None:
        """Note what a task uses, and the tasks that need less memory from now on."""
        # This is most of what a sweep does.
        sizes, all_users, left = self._problem.sizes, self._problem.users, self._left
        rise, net = self._rise, self._net
        for value in self._problem.uses[task]:
            size, users, uses_left = sizes[value], all_users[value], left[value]
            if uses_left == len(users):
                for user in users:
                    rise[user] -= size
                    net[user] -= size
                    changed[user] = None
            left[value] = uses_left - 1
            if uses_left == 2:
                self._free_at_last(value, changed)

    def _free_at_last(self, value: int, changed: dict[int, None]) -> None:
        """Note that one use of a value is left, which frees it."""
        size, users = self._problem.sizes[value], self._problem.users[value]
        is_done = self._is_done
        last = next(user for user in users if not is_done[user])
        self._net[last] -= size
        changed[last] = None
        if not self._backward and value in self._problem.tasks[last].over:
            self._rise[last] -= max(0, size - self._saved[last])
            self._saved[last] = max(size, self._saved[last])
