"""Acts on a virtual clock against closed forms: pipelines, slots, shared links."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from draws import fresh_seed

from penstock.lowering.algorithms.byte_sharing import Edge
from penstock.lowering.algorithms.timed_graph import Work, times_of


@pytest.mark.parametrize(("stages", "batches"), [(1, 5), (4, 1), (4, 8), (8, 8)])
def test_a_pipeline_takes_as_long_as_its_formula_says(stages: int, batches: int):
    works = [Work((stage,), 7) for stage in range(stages)]
    edges = [Edge(i, i + 1, 0) for i in range(stages - 1)]
    times = times_of(works, edges, batches)
    # GPipe, Huang et al. 2019: a share (p - 1) / (m + p - 1) of the time is a bubble.
    whole = 7 * (batches + stages - 1)
    assert times.end(batches - 1) == whole
    bubble = 1 - Fraction(7 * batches * stages, stages * times.end(batches - 1))
    assert bubble == Fraction(stages - 1, batches + stages - 1)


def simple_cycles(size: int, edges: list[Edge]) -> list[list[Edge]]:
    """All cycles that pass no act twice, each from its least act on."""
    found: list[list[Edge]] = []

    def extend(path: list[Edge], seen: set[int]) -> None:
        for edge in edges:
            if edge.source != path[-1].target or edge.target < path[0].source:
                continue
            if edge.target == path[0].source:
                found.append([*path, edge])
            elif edge.target not in seen:
                extend([*path, edge], seen | {edge.target})

    for edge in edges:
        if edge.source == edge.target:
            found.append([edge])
        elif edge.target > edge.source:
            extend([edge], {edge.source, edge.target})
    return found


def test_iterations_follow_each_other_by_the_slowest_cycle():
    random = Random(fresh_seed())
    for _ in range(20):
        size = random.randint(2, 5)
        works = [
            Work((), random.randint(0, 9), random.randint(0, 3)) for _ in range(size)
        ]
        edges = [Edge(i, i, 1) for i in range(size)]
        edges += [Edge(i, i + 1, 0) for i in range(size - 1)]
        edges += [
            Edge(max(a, b), min(a, b), random.randint(1, 3))
            for a, b in [random.choices(range(size), k=2) for _ in range(4)]
        ]
        # The rate of a marked graph is that of its critical cycle (Reiter 1968).
        slowest = max(
            Fraction(
                sum(
                    works[edge.source].busy + works[edge.source].delay for edge in cycle
                ),
                sum(edge.tokens for edge in cycle),
            )
            for cycle in simple_cycles(size, edges)
        )
        # Starts repeat after some iterations, with a period of at most 3! x 2 tokens.
        times = times_of(works, edges, 200)
        late = [max(row) for row in times.starts]
        assert Fraction(late[180] - late[120], 60) == slowest


def test_acts_of_one_resource_follow_each_other_the_earliest_first():
    works = [Work((0,), 5), Work((), 2), Work((0,), 1), Work((0,), 10)]
    times = times_of(works, [Edge(1, 2, 0)], 1)
    # The last one could begin at 0, the third only at 2.
    assert times.starts == [[0, 0, 15, 5]]


def test_an_act_waits_for_all_of_its_resources():
    works = [Work((0,), 4), Work((1,), 6), Work((1, 0), 3), Work((0,), 1)]
    assert times_of(works, [], 1).starts == [[0, 0, 6, 4]]


def test_a_delay_keeps_no_resource():
    works = [Work((0,), 2, 100), Work((0,), 2, 100), Work((), 1)]
    times = times_of(works, [Edge(1, 2, 0)], 1)
    assert times.starts == [[0, 2, 104]]
    assert times.end(0) == 105


def test_acts_that_wait_for_each_other_are_an_error():
    edges = [Edge(0, 1, 0), Edge(1, 0, 0)]
    with pytest.raises(ValueError, match="acts wait for each other"):
        times_of([Work((), 1), Work((), 1)], edges, 2)
