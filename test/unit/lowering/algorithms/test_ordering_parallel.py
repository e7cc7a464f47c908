"""Orders of tasks on several devices: what they may not cost."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from penstock.lowering.algorithms.list_scheduling import Dispatch, Job, by_level
from penstock.lowering.algorithms.ordering import parallel
from penstock.lowering.algorithms.ordering.parallel import Part
from penstock.lowering.algorithms.ordering.problem import (
    Order,
    Problem,
    Task,
    Value,
    is_order,
    peaks_of,
)
from penstock.lowering.algorithms.ordering.strategies import overlap_order

SEEDS = range(40)


class Case:
    """Random tasks on some devices, a lane each, which read what any of them made."""

    def __init__(self, seed: int, switches: Sequence[int] = (0, 5)) -> None:
        count, devices = 30, 3
        rng = random.Random(seed)
        density = rng.choice((0.05, 0.1, 0.2))
        lanes = [rng.randrange(devices) for _ in range(count)]
        values = [Value(rng.randint(1, 100), lane) for lane in lanes]
        tasks: list[Task] = []
        for task in range(count):
            reads = tuple(v for v in range(task) if rng.random() < density)
            tasks.append(Task(reads, (task,)))
        self.problem = Problem(values, tasks)
        self.jobs = [
            Job(rng.randint(0, 50), before, [lane], switch=rng.choice(switches))
            for before, lane in zip(self.problem.before, lanes, strict=True)
        ]
        self.parts = [Part(rng.choice((None, "a", "b")), lane) for lane in lanes]
        self.is_early = [rng.random() < 0.2 for _ in lanes]


def makespan_by_definition(jobs: Sequence[Job], order: Order) -> int:
    """When the last job ends, each after the one before it in its lane."""
    end: dict[int, int] = {}
    last: dict[int, int] = {}
    for job in order:
        time, after, (lane,), switch = jobs[job]
        ready = [end[x] + (switch if jobs[x].lanes[0] != lane else 0) for x in after]
        end[job] = max([last.get(lane, 0), *ready]) + time
        last[lane] = end[job]
    return max(end.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_times_time_never_grow(seed: int):
    case = Case(seed)
    problem, source = case.problem, case.problem.source
    order = parallel.parallel_order(problem, case.jobs, case.parts, 20_000)
    assert is_order(problem, order)
    before, after = peaks_of(problem, source), peaks_of(problem, order)
    assert all(new <= old for new, old in zip(after, before, strict=True))
    old = sum(before) * makespan_by_definition(case.jobs, source)
    new = sum(after) * makespan_by_definition(case.jobs, order)
    assert new < old or order == source


@pytest.mark.slow
def test_most_orders_get_better():
    changed = 0
    for seed in SEEDS:
        case = Case(seed)
        order = parallel.parallel_order(case.problem, case.jobs, case.parts, 20_000)
        changed += order != case.problem.source
    assert changed > len(SEEDS) // 2


@pytest.mark.parametrize("seed", SEEDS)
def test_the_shortest_order_ends_first_of_all_that_are_compared(seed: int):
    case = Case(seed)
    problem = case.problem
    order = parallel.shortest_order(problem, case.jobs, case.is_early)
    assert is_order(problem, order)

    def rank(order: Order) -> tuple[int, int]:
        end = makespan_by_definition(case.jobs, order)
        return end, sum(peaks_of(problem, order))

    assert rank(order) == min(
        rank(other)
        for other in (
            problem.source,
            overlap_order(problem, case.is_early),
            Dispatch(case.jobs).run().order,
            by_level(case.jobs),
        )
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_no_lane_idles_while_a_task_of_it_can_run(seed: int):
    case = Case(seed, switches=[0])
    order = parallel.without_idling(case.jobs, case.problem.source)
    assert is_order(case.problem, order)
    end: dict[int, int] = {}
    acts: dict[int, list[tuple[int, int]]] = {}
    able: dict[int, int] = {}
    for job in order:
        time, after, (lane,), _ = case.jobs[job]
        able[job] = max((end[other] for other in after), default=0)
        before = acts.setdefault(lane, [(0, 0)])
        start = max(before[-1][1], able[job])
        end[job] = start + time
        before.append((start, end[job]))
    for job in order:
        time, _, (lane,), _ = case.jobs[job]
        start = end[job] - time
        busy = (min(b, start) - max(a, able[job]) for a, b in acts[lane])
        assert sum(x for x in busy if x > 0) == start - able[job]


################################################################################
# Parts of one op                                                              #
################################################################################


def two_devices(steps: int, rng: random.Random) -> tuple[Problem, list[Part]]:
    """A job whose every task is done by two devices at once."""
    values: list[Value] = []
    tasks: list[Task] = []
    for step in range(steps):
        reads = [s for s in range(step) if rng.random() < 0.3]
        size = rng.randint(1, 50)
        for device in range(2):
            values.append(Value(size, device))
            made = tuple(2 * s + device for s in reads)
            tasks.append(Task(made, (2 * step + device,)))
    return Problem(values, tasks), [Part("op", i % 2) for i in range(2 * steps)]


@pytest.mark.parametrize("seed", SEEDS)
def test_parts_of_one_op_are_one_task(seed: int):
    problem, parts = two_devices(12, random.Random(seed))
    groups = parallel.groups_of(problem, parts)
    assert groups == [[2 * step, 2 * step + 1] for step in range(12)]
    whole = parallel.contracted(problem, groups)
    # All bytes are on two devices in equal parts.
    halves = peaks_of(problem, problem.source)
    assert peaks_of(whole, whole.source) == [sum(halves)]
    assert halves[0] == halves[1]


def test_tasks_that_wait_for_each_other_are_apart():
    values = [Value(1, 0), Value(1, 1)]
    problem = Problem(values, [Task((), (0,)), Task((0,), (1,))])
    parts = [Part("op", 0), Part("op", 1)]
    assert parallel.groups_of(problem, parts) == [[0], [1]]


@pytest.mark.parametrize(
    ("parts", "makes"),
    [
        ([Part("op", 0), Part("other", 1)], [(0,), (1,)]),
        ([Part("op", 0), Part("op", 0)], [(0,), (1,)]),
        ([Part(None, 0), Part(None, 1)], [(0,), (1,)]),
        ([Part("op", 0), Part("op", 1)], [(0, 1), ()]),
    ],
    ids=["ops", "devices", "alone", "values"],
)
def test_tasks_that_do_different_things_are_apart(
    parts: list[Part], makes: list[tuple[int, ...]]
):
    problem = Problem([Value(1), Value(1)], [Task((), made) for made in makes])
    assert parallel.groups_of(problem, parts) == [[0], [1]]


def test_parts_that_may_be_overwritten_may_be_so_as_a_whole():
    values = [Value(4, 0), Value(4, 1), Value(4, 0), Value(4, 1), Value(9, 0)]
    tasks = [
        *(Task((), (0,)), Task((), (1,))),
        *(Task((0,), (2,), (0,)), Task((1,), (3,), (1,))),
        Task((2,), (4,), ()),
    ]
    whole = parallel.contracted(Problem(values, tasks), [[0, 1], [2, 3], [4]])
    assert whole.values == [Value(8), Value(8), Value(9)]
    assert [*whole.tasks] == [
        Task((), (0,)),
        Task((0,), (1,), (0,)),
        Task((1,), (2,)),
    ]
