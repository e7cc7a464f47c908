"""Orders of tasks against the best of all orders, on small random problems."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TypeAlias

import pytest
from counted_work import steps_of
from draws import draws

from penstock.lowering.algorithms.ordering.limits import (
    limit_at,
    limit_of_tasks,
    limits_of_memories,
    lower_limit,
)
from penstock.lowering.algorithms.ordering.problem import (
    Order,
    Problem,
    Task,
    Value,
    is_order,
    live_profile,
    peak_of,
    peaks_of,
    segments,
)
from penstock.lowering.algorithms.ordering.search import Search, Stretch
from penstock.lowering.algorithms.ordering.strategies import (
    LARGEST_SEARCH,
    Timeline,
    depth_first_order,
    early_order,
    memory_order,
    overlap_order,
    simple_orders,
)

Strategy: TypeAlias = Callable[[Problem], Order]

SEEDS = range(draws(9))

################################################################################
# Problems, and what is true of them by definition                             #
################################################################################


def random_problem(
    seed: int, tasks: int = 7, in_place: bool = False, memories: int = 1
) -> Problem:
    """Tasks that read some of the values before them and make up to two."""
    rng = random.Random(f"{seed} {tasks}")
    density = rng.choice((0.2, 0.4, 0.8))
    values: list[Value] = []
    made: list[Task] = []
    for task in range(tasks):
        reads = tuple(v for v in range(len(values)) if rng.random() < density)
        count = rng.choice((0, 1, 1, 1, 2)) if task else 1
        makes = tuple(range(len(values), len(values) + count))
        values += [Value(rng.randint(1, 6), rng.randrange(memories)) for _ in makes]
        over = tuple(v for v in reads if any(values[v] == values[m] for m in makes))
        made.append(Task(reads, makes, over if in_place else ()))
    return Problem(values, made)


def all_orders(problem: Problem) -> Iterator[Order]:
    """Every order in which the tasks can run."""

    def extended(order: Order) -> Iterator[Order]:
        if len(order) == len(problem.tasks):
            yield order
        made = {v for task in order for v in problem.tasks[task].makes}
        for index, task in enumerate(problem.tasks):
            if index not in order and made.issuperset(task.reads):
                yield from extended([*order, index])

    return extended([])


def peak_by_definition(problem: Problem, order: Sequence[int]) -> int:
    """The bytes of the fullest step: what is alive, less what is overwritten."""
    steps: dict[int, list[int]] = {}
    for step, index in enumerate(order):
        for value in (*problem.tasks[index].reads, *problem.tasks[index].makes):
            steps.setdefault(value, []).append(step)
    peak = 0
    for step, index in enumerate(order):
        alive = [v for v in steps if min(steps[v]) <= step <= max(steps[v])]
        over = [v for v in problem.tasks[index].over if max(steps[v]) == step]
        saved = max((problem.values[v].size for v in over), default=0)
        peak = max(peak, sum(problem.values[v].size for v in alive) - saved)
    return peak


@cache
def best_peak(seed: int, in_place: bool) -> int:
    """The least bytes of any order of a random problem."""
    problem = random_problem(seed, in_place=in_place)
    return min(peak_by_definition(problem, order) for order in all_orders(problem))


def whole(problem: Problem) -> Stretch:
    """All tasks as one stretch."""
    return Stretch(
        problem, problem.source, 0, dict.fromkeys(range(len(problem.values)), 0)
    )


def chain_of_diamonds(count: int) -> Problem:
    """Diamonds one after the other, listed so that both branches are wide at once."""
    values, tasks = [Value(1)], [Task((), (0,))]
    for index in range(count):
        x = 5 * index
        values += [Value(9), Value(9), Value(1), Value(1), Value(1)]
        reads = (x,), (x,), (x + 1,), (x + 2,), (x + 3, x + 4)
        tasks += [Task(r, (x + 1 + i,)) for i, r in enumerate(reads)]
    return Problem(values, tasks)


STRATEGIES: dict[str, Strategy] = {
    "memory": lambda problem: memory_order(problem, 20_000)[0],
    "greedy": lambda problem: memory_order(problem, 0)[0],
    "early": early_order,
}

################################################################################
# Problems                                                                     #
################################################################################


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_live_bytes_are_counted_as_defined(seed: int, in_place: bool):
    problem = random_problem(seed, in_place=in_place)
    for order in list(all_orders(problem))[:20]:
        assert peak_of(problem, order) == peak_by_definition(problem, order)


def test_live_bytes_of_a_memory_leave_out_the_others():
    values = [Value(1, 0), Value(10, 1), Value(100, 0)]
    tasks = [Task((), (0,)), Task((0,), (1,)), Task((1,), (2,))]
    problem = Problem(values, tasks)
    assert live_profile(problem, [0, 1, 2]) == [1, 11, 110]
    assert peaks_of(problem, [0, 1, 2]) == [100, 10]
    assert limits_of_memories(problem) == [100, 10]


@pytest.mark.parametrize("seed", SEEDS)
def test_live_bytes_of_each_memory_are_those_of_its_values_alone(seed: int):
    problem = random_problem(seed, memories=3, in_place=True)
    memories = sorted({value.memory for value in problem.values})
    alone = [
        Problem(
            [Value(v.size * (v.memory == m), m) for v in problem.values],
            problem.tasks,
        )
        for m in memories
    ]
    for order in list(all_orders(problem))[:20]:
        wanted = [peak_by_definition(each, order) for each in alone]
        assert peaks_of(problem, order) == wanted


def test_what_is_overwritten_counts_once_and_only_for_its_last_reader():
    values = [Value(8), Value(8), Value(8)]
    tasks = [Task((), (0,)), Task((0,), (1,), (0,)), Task((0,), (2,), (0,))]
    assert live_profile(Problem(values, tasks), [0, 1, 2]) == [8, 16, 8]


@pytest.mark.parametrize(
    "order",
    [[0, 2, 1], [0, 1], [0, 1, 1], [0, 1, 2, 3]],
    ids=["too early", "missing", "twice", "unknown"],
)
def test_what_is_no_order_is_found(order: Order):
    values = [Value(1), Value(1)]
    problem = Problem(values, [Task((), (0,)), Task((0,), (1,)), Task((1,), ())])
    assert is_order(problem, [0, 1, 2])
    assert not is_order(problem, order)


################################################################################
# Cuts                                                                         #
################################################################################


def test_a_group_ends_with_a_task_that_all_others_come_before_or_after():
    groups = segments(chain_of_diamonds(2))
    assert groups == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]


def test_a_task_beside_all_others_leaves_one_group():
    problem = chain_of_diamonds(2)
    values = [*problem.values, Value(1), Value(1)]
    first = len(problem.values)
    aside = [Task((0,), (first,)), Task((first,), (first + 1,))]
    assert len(segments(Problem(values, [*problem.tasks, *aside]))) == 1


def test_inputs_and_outputs_go_with_those_that_need_and_make_them():
    values = [Value(1) for _ in range(5)]
    tasks = [
        Task((), (0,)),
        Task((), (1,)),
        Task((0,), (2,)),
        Task((2, 1), (3,)),
        Task((2,), ()),
        Task((3,), (4,)),
    ]
    assert segments(Problem(values, tasks)) == [[0, 2, 4], [1, 3], [5]]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_orders_of_all_groups_are_the_best_order(seed: int, in_place: bool):
    problem = random_problem(seed, in_place=in_place)
    joined = [task for tasks in segments(problem) for task in tasks]
    assert is_order(problem, joined)
    line = Timeline(problem, joined)
    start = 0
    for tasks in segments(problem):
        stretch = line.stretch(start, start + len(tasks))
        found = Search(stretch, 0, sys.maxsize).run(sys.maxsize)
        assert found.order is not None
        line.replace(start, found.order)
        start += len(tasks)
    assert line.profile == live_profile(problem, line.order)
    assert line.peak == best_peak(seed, in_place)


################################################################################
# Search                                                                       #
################################################################################


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_search_finds_the_best_order(seed: int, in_place: bool):
    problem = random_problem(seed, in_place=in_place)
    found = Search(whole(problem), 0, sys.maxsize).run(sys.maxsize)
    assert found.order is not None
    assert is_order(problem, found.order)
    assert found.limit == peak_of(problem, found.order) == best_peak(seed, in_place)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_search_finds_nothing_as_high_as_the_ceiling(seed: int):
    best = best_peak(seed, False)
    found = Search(whole(random_problem(seed)), 0, best).run(sys.maxsize)
    assert found == (None, best)


@pytest.mark.parametrize("seed", SEEDS)
def test_below_the_floor_all_orders_are_as_good(seed: int):
    problem = random_problem(seed)
    floor = peak_of(problem, problem.source)
    found = Search(whole(problem), floor, floor + 1).run(sys.maxsize)
    assert found.order is not None
    assert found.limit == floor
    assert peak_of(problem, found.order) <= floor


@pytest.mark.parametrize("budget", [0, 5, 20])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_search_that_ends_early_still_knows_a_limit(seed: int, budget: int):
    found = Search(whole(random_problem(seed)), 0, sys.maxsize).run(budget)
    assert found.limit <= best_peak(seed, False)


################################################################################
# Limits                                                                       #
################################################################################


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_order_is_below_a_limit(seed: int, in_place: bool):
    problem = random_problem(seed, in_place=in_place)
    best = best_peak(seed, in_place)
    assert limit_of_tasks(problem) <= lower_limit(problem, problem.source) <= best
    assert all(limit_at(problem, task) <= best for task in problem.source)


def test_what_is_made_before_and_read_after_a_task_is_alive_at_it():
    values = [Value(5), Value(1), Value(1), Value(1)]
    tasks = [Task((), (0, 1)), Task((1,), (2,)), Task((2, 0), (3,))]
    problem = Problem(values, tasks)
    assert limit_at(problem, 1) == 7
    assert limit_of_tasks(problem) == 7


################################################################################
# Strategies                                                                   #
################################################################################


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_with_the_least_memory_is_found(seed: int, in_place: bool):
    problem = random_problem(seed, in_place=in_place)
    order, limit = memory_order(problem)
    assert limit == peak_of(problem, order) == best_peak(seed, in_place)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("tasks", [1, 2, 12, 40, 150])
def test_no_order_needs_more_than_the_source(name: str, in_place: bool, tasks: int):
    for seed in range(draws(4)):
        problem = random_problem(seed, tasks, in_place, memories=2)
        order = STRATEGIES[name](problem)
        assert is_order(problem, order)
        assert peak_of(problem, order) <= peak_of(problem, problem.source)


@pytest.mark.parametrize("tasks", [7, 40])
def test_no_memory_holds_more_than_in_the_source_order(tasks: int):
    changed = 0
    for seed in range(25):
        problem = random_problem(seed, tasks, memories=3)
        order, limit = memory_order(problem, 20_000)
        before, after = peaks_of(problem, problem.source), peaks_of(problem, order)
        assert all(new <= old for new, old in zip(after, before, strict=True))
        assert limit <= sum(after)
        assert order == problem.source or sum(after) < sum(before)
        changed += order != problem.source
    assert changed > 4


@pytest.mark.parametrize("seed", SEEDS)
def test_a_found_order_is_not_improved_by_looking_again(seed: int):
    problem = random_problem(seed, 40)
    order, _ = memory_order(problem)
    assert is_order(problem, order)
    again = [problem.tasks[task] for task in order]
    assert bytes_when_repeated(again, problem.values, order) <= peak_of(problem, order)


def bytes_when_repeated(
    tasks: Sequence[Task], values: Sequence[Value], order: Order
) -> int:
    """The bytes that the best order needs that is found from this one on."""
    problem = Problem(values, tasks)
    return peak_of(problem, memory_order(problem)[0])


def test_groups_that_are_not_the_fullest_keep_their_order():
    small, large = chain_of_diamonds(1), chain_of_diamonds(1)
    offset = len(small.values)
    values = [*small.values, *(Value(10 * size) for size, _ in large.values)]
    tasks = [*small.tasks, Task((offset - 1,), (offset,))]
    for reads, makes, _ in large.tasks[1:]:
        shifted = tuple(v + offset for v in reads), tuple(v + offset for v in makes)
        tasks.append(Task(*shifted))
    problem = Problem(values, tasks)
    order, _ = memory_order(problem)
    assert order[:6] == [0, 1, 2, 3, 4, 5]
    assert order[6:] in ([6, 7, 9, 8, 10, 11], [6, 8, 10, 7, 9, 11])


def test_what_frees_runs_early_and_all_else_stays():
    values = [Value(1), *(Value(9) for _ in range(3)), *(Value(1) for _ in range(3))]
    makers = [Task((0,), (i,)) for i in (1, 2, 3)]
    updates = [Task((i,), (i + 3,)) for i in (1, 2, 3)]
    problem = Problem(values, [Task((), (0,)), *makers, *updates])
    assert early_order(problem) == [0, 1, 4, 2, 5, 3, 6]


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_run_right_after_what_they_need_in_source_order(seed: int):
    problem = random_problem(seed, 20)
    rng = random.Random(seed)
    is_copy = [rng.random() < 0.4 for _ in problem.tasks]
    order = overlap_order(problem, is_copy)
    assert is_order(problem, order)
    others = [task for task in order if not is_copy[task]]
    assert others == sorted(others)
    done: set[int] = set()
    for task, following in pairwise(order):
        done.add(task)
        ready = [
            t
            for t, earlier in enumerate(problem.before)
            if is_copy[t] and t not in done and earlier and done.issuperset(earlier)
        ]
        assert not ready or is_copy[following]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_simple_order_is_one(seed: int):
    problem = random_problem(seed, 30)
    assert all(is_order(problem, order) for order in simple_orders(problem, 0))


def test_depth_first_runs_the_branch_that_needs_most_first():
    values = [Value(1), Value(1), Value(9), Value(1), Value(1)]
    tasks = [
        Task((), (0,)),
        Task((0,), (1,)),
        Task((), (2,)),
        Task((2,), (3,)),
        Task((1, 3), (4,)),
    ]
    assert depth_first_order(Problem(values, tasks)) == [2, 3, 0, 1, 4]


################################################################################
# Cost and determinism                                                         #
################################################################################

PRINT_ORDERS = """
from test_ordering import chain_of_diamonds, early_order, memory_order, random_problem
for problem in chain_of_diamonds(9), random_problem(3, 60), random_problem(4, 200):
    print(memory_order(problem, 20_000), early_order(problem))
"""


@pytest.mark.slow
def test_orders_do_not_depend_on_hashes():
    printed = {
        subprocess.run(
            [sys.executable, "-c", PRINT_ORDERS],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            cwd=os.path.dirname(__file__),
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(printed) == 1
    assert len(printed.pop().splitlines()) == 3


def steps_to_order(count: int) -> int:
    """The steps that it takes to order so many diamonds, listed badly."""
    problem = chain_of_diamonds(count)
    order, limit = memory_order(problem)
    assert peak_of(problem, order) == limit == 11
    return steps_of(memory_order, problem)


@pytest.mark.slow
def test_work_is_linear_in_the_number_of_tasks():
    # Searches of windows around the fullest step cost the same for any number.
    first, second, third = map(steps_to_order, (100, 200, 300))
    assert third - second < 1.2 * (second - first), "the same; 1.7 times if quadratic"


def tangle(tasks: int, seed: int) -> Problem:
    """Tasks that make a value each and read up to three of those made just before."""
    rng = random.Random(seed)
    made: list[Task] = []
    for task in range(tasks):
        earlier = range(max(0, task - 30), task)
        reads = rng.sample(earlier, min(len(earlier), rng.choice((0, 1, 1, 2, 3))))
        made.append(Task(tuple(sorted(reads)), (task,)))
    return Problem([Value(rng.choice((1, 4, 16))) for _ in made], made)


@pytest.mark.slow
def test_windows_are_searched_where_there_are_too_many_tasks_for_all():
    problem = tangle(LARGEST_SEARCH + 100, seed=1)
    assert max(map(len, segments(problem))) > LARGEST_SEARCH
    simple, _ = memory_order(problem, 0)
    found, _ = memory_order(problem, 100_000)
    assert is_order(problem, found)
    assert peak_of(problem, found) < peak_of(problem, simple)


def test_search_keeps_to_its_budget():
    problem = tangle(100, seed=1)
    order, limit = memory_order(problem, 4_000)
    assert is_order(problem, order)
    assert limit <= peak_of(problem, order)
    none, some, more = (
        steps_of(memory_order, problem, budget) for budget in (0, 1_000, 4_000)
    )
    # An evaluation takes some 30 steps.
    assert none < some < more < none + 100 * 4_000
