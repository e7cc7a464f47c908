"""Schedules of jobs on lanes, against all schedules there are on small graphs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product

import pytest
from counted_work import LINEAR, growth_of

from penstock.lowering.algorithms.list_scheduling import (
    Dispatch,
    Job,
    Schedule,
    best_of,
    bottom_levels,
    by_level,
    in_order,
    lower_limit,
    scheduled_on,
)


def random_jobs(rng: random.Random, count: int, lanes: int) -> list[Job]:
    """Jobs that wait for earlier ones; some may run on one lane only."""
    jobs: list[Job] = []
    switch = rng.choice([0, 0, 1, 4])
    for index in range(count):
        after = rng.sample(range(index), min(index, rng.randrange(3)))
        some = [rng.randrange(lanes)] if rng.random() < 0.3 else list(range(lanes))
        jobs.append(Job(rng.randrange(10), after, some, switch))
    return jobs


def end_by_definition(
    jobs: Sequence[Job], order: Sequence[int], lane: Sequence[int]
) -> int:
    """When jobs in an order on these lanes end, by repeated relaxation."""
    start = [0] * len(jobs)
    changed = True
    while changed:
        changed = False
        for position, job in enumerate(order):
            earliest = [0]
            for other in order[:position]:
                if lane[other] == lane[job]:
                    earliest.append(start[other] + jobs[other].time)
            for other in jobs[job].after:
                switch = jobs[job].switch if lane[other] != lane[job] else 0
                earliest.append(start[other] + jobs[other].time + switch)
            if max(earliest) > start[job]:
                start[job] = max(earliest)
                changed = True
    return max(start[job] + jobs[job].time for job in range(len(jobs)))


def orders_of(jobs: Sequence[Job]) -> Iterator[tuple[int, ...]]:
    for order in permutations(range(len(jobs))):
        place = {job: i for i, job in enumerate(order)}
        if all(place[a] < place[i] for i, job in enumerate(jobs) for a in job.after):
            yield order


def shortest(jobs: Sequence[Job]) -> int:
    """The end of the best of all schedules."""
    return min(
        end_by_definition(jobs, order, lane)
        for order in orders_of(jobs)
        for lane in product(*(job.lanes for job in jobs))
    )


def candidates(jobs: Sequence[Job]) -> list[Schedule]:
    listed = in_order(jobs, range(len(jobs)))
    return [listed, Dispatch(jobs).run(), in_order(jobs, by_level(jobs))]


@pytest.mark.parametrize("seed", range(60))
def test_schedules_are_sound_and_the_limit_holds(seed: int):
    rng = random.Random(seed)
    jobs = random_jobs(rng, rng.randrange(1, 6), rng.randrange(1, 3))
    best = shortest(jobs)
    assert lower_limit(jobs) <= best
    for schedule in candidates(jobs):
        lanes = [schedule.lane[job] for job in range(len(jobs))]
        assert sorted(schedule.order) == list(range(len(jobs)))
        assert all(lane in job.lanes for job, lane in zip(jobs, lanes, strict=True))
        assert end_by_definition(jobs, schedule.order, lanes) == schedule.makespan
        assert best <= schedule.makespan


@pytest.mark.parametrize("seed", range(40))
def test_list_scheduling_is_near_the_best(seed: int):
    """On m equal lanes it ends before 2 - 1/m times the best there is (Graham)."""
    rng = random.Random(seed)
    jobs = [
        job._replace(lanes=[0, 1], switch=0)
        for job in random_jobs(rng, rng.randrange(1, 6), 2)
    ]
    assert Dispatch(jobs).run().makespan <= 1.5 * shortest(jobs)


def test_most_schedules_are_the_best():
    """Of 60 small graphs at least two in three."""
    found = 0
    for seed in range(60):
        rng = random.Random(1000 + seed)
        jobs = random_jobs(rng, 5, 2)
        found += best_of(candidates(jobs)).makespan == shortest(jobs)
    assert found >= 40


def test_jobs_stay_where_they_are_put():
    jobs = [Job(3, [], [0, 1]), Job(3, [0], [0, 1], switch=2), Job(4, [], [0, 1])]
    schedule = scheduled_on(jobs, [1, 0, 1])
    # The second waits for the first and 2 more, the third for its lane.
    assert schedule.start == {0: 0, 1: 5, 2: 3}
    assert schedule.makespan == 8


def test_list_scheduling_takes_what_most_depends_on():
    # 0 alone takes 4; 1 -> 2 takes 9, so 1 goes first where there is one lane.
    jobs = [Job(4, [], [0]), Job(2, [], [0]), Job(7, [1], [1])]
    assert bottom_levels(jobs) == [4, 9, 7]
    schedule = Dispatch(jobs).run()
    assert schedule.order == [1, 2, 0]
    assert schedule.makespan == 9
    assert in_order(jobs, range(3)).makespan == 13


@pytest.mark.parametrize(("switch", "lane"), [(0, 1), (4, 1), (5, 0), (8, 0)])
def test_a_switch_keeps_short_jobs_together(switch: int, lane: int):
    job = Job(5, [0], [0, 1], switch)
    schedule = Dispatch([job._replace(after=[]), job, job]).run()
    # The last one begins at 10 where the others run, else at 5 and the switch.
    assert schedule.lane == {0: 0, 1: 0, 2: lane}
    assert schedule.makespan == (15 if lane == 0 else 10 + switch)


def test_no_jobs_take_no_time():
    assert Dispatch([]).run().makespan == 0
    assert lower_limit([]) == 0


def test_many_jobs_take_linear_time():
    rng = random.Random(5)

    def problem(size: int) -> Callable[[], object]:
        jobs: list[Job] = []
        for index in range(size):
            after = {rng.randrange(max(0, index - 50), index) for _ in "ab" if index}
            jobs.append(Job(rng.randrange(1, 100), sorted(after), [0, 1, 2, 3], 2))
        assert Dispatch(jobs).run().makespan <= 2 * lower_limit(jobs)
        return lambda: Dispatch(jobs).run()

    assert growth_of(problem, 200) < LINEAR
