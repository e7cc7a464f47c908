"""
The best order of a few tasks, found by visiting sets of tasks that have run.

The number of bytes alive depends on the set of tasks that have run, not on their order.
So the best order is a path from the empty set to the full one whose fullest step is
least. Sets are visited by the peak of the best path to them. Three rules, none of which
can lose the best order, keep them few:

* bytes below `floor`, which no order of all tasks can beat, cost nothing;
* a chain of tasks that ends with no more bytes alive than before it, and fits below the
  peak so far, runs at once;
* a set whose peak is not below `ceiling`, that of a known order, is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

from penstock.lowering.algorithms.ordering.problem import Order, Problem

TaskSet: TypeAlias = int
"""A set of tasks of a stretch: bit i for its i-th task."""

LONGEST_CHAIN = 12
"""The largest number of tasks of a chain that runs at once."""

COPIES = 8
"""The number of tasks that are listed in the time in which one effect is looked at."""


class Found(NamedTuple):
    """The result of a search."""

    order: Order | None
    """The best order below the ceiling, if one was found."""
    limit: int
    """Bytes: no order of the stretch has a lower peak. At most the ceiling."""


class Effect(NamedTuple):
    """The change of live bytes by a task, while it runs and for good."""

    rise: int
    net: int


def net_of(effect: tuple[Effect, int]) -> int:
    """By how much a task, which comes second, changes the live bytes for good."""
    return effect[0].net


def union(sets: Iterable[TaskSet]) -> TaskSet:
    """The union of sets of tasks."""
    found = 0
    for tasks in sets:
        found |= tasks
    return found


class Use(NamedTuple):
    """A value that a task of a stretch uses."""

    size: int
    users: TaskSet
    is_new: bool
    """Whether no task before the stretch uses it."""
    is_last: bool
    """Whether no task after the stretch uses it."""
    is_over: bool
    """Whether the task may overwrite it."""


@dataclass
class Stretch:
    """Consecutive tasks of an order, which can be reordered by themselves."""

    problem: Problem
    tasks: Sequence[int]
    live: int
    """The bytes alive before the first task."""
    started: Mapping[int, int]
    """The number of uses before the stretch of each value that the tasks use."""
    evaluations: int = field(init=False, default=0)
    """The number of effects that were looked at: the cost of a search."""
    uses: list[list[Use]] = field(init=False)
    _near: list[TaskSet] = field(init=False)
    """The tasks that use something that each task uses, too."""
    _effects: list[dict[TaskSet, Effect]] = field(init=False)
    """The effects of each task that were looked at, by those of its near that ran."""
    needs: list[TaskSet] = field(init=False)
    unlocks: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        index = {task: i for i, task in enumerate(self.tasks)}
        problem = self.problem
        users: dict[int, TaskSet] = {}
        for task, i in index.items():
            for value in problem.uses[task]:
                users[value] = users.get(value, 0) | 1 << i
        self.uses = [
            [self._use_of(value, users[value], task) for value in problem.uses[task]]
            for task in self.tasks
        ]
        self._near = [union(use.users for use in uses) for uses in self.uses]
        self._effects = [{} for _ in self.tasks]
        inner = [
            [index[t] for t in problem.before[u] if t in index] for u in self.tasks
        ]
        self.needs = [sum(1 << i for i in earlier) for earlier in inner]
        self.unlocks = [[] for _ in self.tasks]
        for task, earlier in enumerate(inner):
            for other in earlier:
                self.unlocks[other].append(task)

    def _use_of(self, value: int, users: TaskSet, task: int) -> Use:
        before = self.started[value]
        total = len(self.problem.users[value])
        return Use(
            self.problem.sizes[value],
            users,
            is_new=before == 0,
            is_last=before + users.bit_count() == total,
            is_over=value in self.problem.tasks[task].over,
        )

    def effect(self, task: int, done: TaskSet) -> Effect:
        """The effect of a task after the tasks of a set."""
        self.evaluations += 1
        known, done = self._effects[task], done & self._near[task]
        if (effect := known.get(done)) is None:
            known[done] = effect = self._effect(task, done)
        return effect

    def _effect(self, task: int, done: TaskSet) -> Effect:
        rise = net = saved = 0
        left = ~done
        bit = 1 << task
        for size, users, is_new, is_last, is_over in self.uses[task]:
            if is_new and not users & done:
                rise += size
                net += size
            if is_last and users & left == bit:
                net -= size
                if is_over and size > saved:
                    saved = size
        return Effect(rise - saved, net)

    def profile(self) -> list[int]:
        """The live bytes at each step, in the order of the tasks."""
        steps: list[int] = []
        live = self.live
        for task in range(len(self.tasks)):
            rise, net = self.effect(task, (1 << task) - 1)
            steps.append(live + rise)
            live += net
        return steps

    def unlocked(self, task: int, done: TaskSet) -> list[int]:
        """The tasks that can run after those of a set, of which `task` ran last."""
        needs = self.needs
        return [x for x in self.unlocks[task] if needs[x] & done == needs[x]]


class Path(NamedTuple):
    """The tasks that have run, the last ones first."""

    before: Path | None
    tasks: tuple[int, ...]


class State(NamedTuple):
    """A set of tasks that have run, and how; they compare as they are visited."""

    peak: int
    missing: int
    """The number of tasks that have not run."""
    live: int
    number: int
    """All states have different ones."""
    done: TaskSet
    ready: tuple[int, ...]
    path: Path | None


class Search:
    """The search for the best order of one stretch."""

    def __init__(self, stretch: Stretch, floor: int, ceiling: int) -> None:
        self._stretch = stretch
        self._ceiling = ceiling
        self._open: list[State] = []
        self._peaks: dict[TaskSet, int] = {}
        self._count = 0
        ready = [task for task, needs in enumerate(stretch.needs) if not needs]
        self._settle(floor, stretch.live, 0, ready, None, ())

    def run(self, budget: int) -> Found:
        """The best order, or what is known of it after so many evaluations."""
        while self._open:
            state = heappop(self._open)
            if self._peaks[state.done] < state.peak:
                continue
            if not state.missing:
                return Found(self._order_of(state), state.peak)
            if self._stretch.evaluations > budget:
                return Found(None, state.peak)
            for task in state.ready:
                self._visit(state, task)
        return Found(None, self._ceiling)

    def _visit(self, state: State, task: int) -> None:
        """Run one task after those of a state."""
        rise, net = self._stretch.effect(task, state.done)
        peak = max(state.peak, state.live + rise)
        done = state.done | 1 << task
        if peak >= self._ceiling or self._peaks.get(done, peak + 1) <= peak:
            return
        ready = [other for other in state.ready if other != task]
        ready.extend(self._stretch.unlocked(task, done))
        self._settle(peak, state.live + net, done, ready, state.path, (task,))

    def _settle(
        self,
        peak: int,
        live: int,
        done: TaskSet,
        ready: list[int],
        before: Path | None,
        tasks: tuple[int, ...],
    ) -> None:
        """Run all chains that are free, and keep the set that they lead to."""
        first = done
        while chain := self._free_chain(peak, live, done, ready):
            for task in chain:
                live += self._stretch.effect(task, done).net
                done |= 1 << task
                ready.remove(task)
                ready.extend(self._stretch.unlocked(task, done))
            tasks += chain
        if self._peaks.get(done, peak + 1) <= peak:
            return
        self._peaks[first] = self._peaks[done] = peak
        missing = len(self._stretch.tasks) - done.bit_count()
        self._count += 1
        self._stretch.evaluations += len(ready) // COPIES
        path = Path(before, tasks)
        state = State(peak, missing, live, self._count, done, tuple(ready), path)
        heappush(self._open, state)

    def _free_chain(
        self, peak: int, live: int, done: TaskSet, ready: Sequence[int]
    ) -> tuple[int, ...]:
        """A chain of tasks that need not wait; empty if there is none."""
        for task in ready:
            if chain := self._chain_from(task, peak, live, done):
                return chain
        return ()

    def _chain_from(
        self, task: int, peak: int, start: int, done: TaskSet
    ) -> tuple[int, ...]:
        """The chain from a task on to where as little is alive as before it."""
        effect = self._stretch.effect
        rise, net = effect(task, done)
        chain: list[int] = []
        live = start
        while live + rise <= peak:
            chain.append(task)
            live += net
            if live <= start:
                return tuple(chain)
            done |= 1 << task
            following = self._stretch.unlocked(task, done)
            if not following or len(chain) == LONGEST_CHAIN:
                break
            effects = [(effect(other, done), other) for other in following]
            (rise, net), task = min(effects, key=net_of)
        return ()

    def _order_of(self, state: State) -> Order:
        order: Order = []
        path = state.path
        while path is not None:
            order.extend(self._stretch.tasks[task] for task in reversed(path.tasks))
            path = path.before
        return order[::-1]
