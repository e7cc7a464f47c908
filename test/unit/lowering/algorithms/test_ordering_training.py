"""
Early updates in training and the memory they save: forward, backward, updates at the
end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean

import pytest

from penstock.lowering.algorithms.ordering.problem import (
    Order,
    Problem,
    Task,
    Value,
    is_order,
)
from penstock.lowering.algorithms.ordering.strategies import early_order, memory_order

SEEDS = range(24)


@dataclass
class Training:
    """
    A training step of a perceptron of random widths. Weights are variables: they are no
    values, and updates make none.
    """

    rng: random.Random
    rate: int | None = None
    """The bytes of a rate, made behind all gradients, which updates read."""
    values: list[Value] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)

    def add(self, reads: Sequence[int], *sizes: int) -> int:
        """Add a task; the first value that it makes."""
        first = len(self.values)
        self.values.extend(map(Value, sizes))
        made = tuple(range(first, first + len(sizes)))
        self.tasks.append(Task(tuple(dict.fromkeys(reads)), made))
        return first

    def build(self) -> Problem:
        """All layers, there and back, then one update a layer."""
        rng = self.rng
        batch = rng.choice((32, 64, 128, 256))
        layers = rng.randint(6, 40)
        widths = [rng.choice((64, 128, 256, 512, 1024)) for _ in range(layers + 1)]
        inputs: list[int] = []
        sums: list[int] = []
        value = self.add((), batch * widths[0])
        for width in widths[1:]:
            inputs.append(value)
            sums.append(self.add((value,), batch * width))
            value = self.add((sums[-1],), batch * width)
        gradient = self.add((value,), batch * widths[-1])
        weights: list[int] = []
        for layer in reversed(range(layers)):
            inner = self.add((gradient, sums[layer]), batch * widths[layer + 1])
            if layer:
                gradient = self.add((inner,), batch * widths[layer])
            size = widths[layer] * widths[layer + 1]
            weights.append(self.add((inputs[layer], inner), size))
        rate = () if self.rate is None else (self.add((), self.rate),)
        for weight in weights:
            self.updates.append(len(self.tasks))
            self.add((weight, *rate))
        return Problem(self.values, self.tasks)


def live_bytes(problem: Problem, order: Order) -> int:
    """The bytes of the fullest step, counted from the definition of lifetimes."""
    step = {task: i for i, task in enumerate(order)}
    change = [0] * (len(order) + 1)
    for value, (size, _) in enumerate(problem.values):
        used = [
            step[i]
            for i, task in enumerate(problem.tasks)
            if value in task.reads or value in task.makes
        ]
        change[min(used)] += size
        change[max(used) + 1] -= size
    peak = live = 0
    for difference in change:
        live += difference
        peak = max(peak, live)
    return peak


@pytest.mark.parametrize("seed", SEEDS)
def test_each_update_runs_as_soon_as_its_gradient_is_there(seed: int):
    job = Training(random.Random(seed))
    problem = job.build()
    order = early_order(problem)
    assert is_order(problem, order)
    for update in job.updates:
        assert order[order.index(update) - 1] in problem.before[update]


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_do_not_wait_for_a_rate_that_is_made_last(seed: int):
    jobs = [Training(random.Random(seed), rate).build() for rate in (None, 4)]
    plain, rated = (live_bytes(job, early_order(job)) for job in jobs)
    assert rated <= plain + 4


def test_early_updates_need_two_thirds_of_the_bytes():
    early: list[float] = []
    found: list[float] = []
    for seed in SEEDS:
        problem = Training(random.Random(seed)).build()
        source = live_bytes(problem, problem.source)
        early.append(live_bytes(problem, early_order(problem)) / source)
        order, limit = memory_order(problem, 20_000)
        found.append(live_bytes(problem, order) / source)
        assert limit / source <= found[-1] <= early[-1] <= 1
    assert geometric_mean(early) <= 0.65
    assert geometric_mean(found) <= geometric_mean(early)
