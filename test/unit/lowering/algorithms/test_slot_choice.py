"""The choice of slots against schedules that repeat, and its peaks by brute force."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from counted_work import LINEAR, growth_of
from draws import draws

from penstock.lowering.algorithms.slot_counts import (
    Queue,
    least_interval,
    longest,
    overflows,
    peak_of,
)


def random_queues(rng: random.Random) -> list[Queue]:
    queues: list[Queue] = []
    for _ in range(rng.randrange(1, 8)):
        start = rng.randrange(20)
        end = start + rng.randrange(1, 20)
        fixed = rng.choice([None, None, None, 1, 2])
        lasting = rng.random() < 0.1
        size = rng.randrange(1, 10)
        queues.append(Queue(start, end, size, rng.randrange(2), fixed, lasting))
    return queues


def in_use(queue: Queue, interval: int, acts: int) -> int:
    """The most slots in use at once if acts begin at an interval, over some acts."""
    spans = [
        (queue.start + n * interval, queue.end + n * interval) for n in range(acts)
    ]
    return max(sum(a <= moment < b for a, b in spans) for moment, _ in spans)


@pytest.mark.parametrize("seed", range(draws(16)))
def test_slots_are_the_most_in_use_at_once(seed: int):
    rng = random.Random(seed)
    for queue in random_queues(rng):
        interval = rng.randrange(1, 25)
        wanted = in_use(queue, interval, 45)
        assert queue._replace(fixed=None).slots(interval) == wanted
        assert queue._replace(fixed=7).slots(interval) == 7


def most_bytes(queues: Sequence[Queue], memory: int, interval: int) -> int:
    """The most bytes at a nanosecond."""
    most = 0
    for moment in range(50):
        alive = 0
        for queue in queues:
            slots = queue.slots(interval)
            passing = queue.start <= moment < queue.end
            if queue.memory == memory and (queue.lasting or slots > 1 or passing):
                alive += queue.size * slots
        most = max(most, alive)
    return most


@pytest.mark.parametrize("seed", range(draws(33)))
def test_a_peak_is_the_fullest_moment(seed: int):
    rng = random.Random(seed)
    queues = random_queues(rng)
    for memory in range(2):
        interval = rng.randrange(1, 25)
        peak = peak_of(queues, memory, interval)
        assert peak.bytes == most_bytes(queues, memory, interval)
        sizes = [queues[i].size * queues[i].slots(interval) for i in peak.owners]
        assert sum(sizes) == peak.bytes
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("seed", range(draws(66)))
def test_the_interval_is_the_shortest_that_fits(seed: int):
    rng = random.Random(seed)
    queues = random_queues(rng)
    limits = {memory: rng.randrange(60) for memory in range(rng.randrange(3))}
    least = rng.randrange(1, 15)
    fitting = [
        interval
        for interval in range(least, 60)
        if all(most_bytes(queues, m, interval) <= limits[m] for m in limits)
    ]
    found = least_interval(queues, limits, least)
    assert found == (fitting[0] if fitting else None)
    if found is None:
        assert overflows(queues, limits, max(least, longest(queues)))


def test_nothing_takes_nothing():
    assert peak_of([], 0, 1) == (0, [])
    assert least_interval([], {0: 0}, 3) == 3


def test_many_queues_take_linear_time():
    rng, limits = random.Random(3), {0: 64 * 500}

    def problem(size: int) -> Callable[[], object]:
        queues: list[Queue] = []
        for i in range(size):
            queues.append(Queue(1000 * i, 1000 * (i + rng.randrange(1, 500)), 64))
        assert least_interval(queues, limits, 1000) is not None
        return lambda: least_interval(queues, limits, 1000)

    assert growth_of(problem, 200) < LINEAR
