"""Minimum cuts against all cuts of small graphs, and what is kept by them."""

from __future__ import annotations

import random
from itertools import product

import pytest

from penstock.lowering.algorithms.min_cut import FlowGraph
from penstock.lowering.algorithms.recomputation import (
    ForwardValue,
    flops_of,
    kept_by_min_cut,
    kept_bytes,
    made_again,
    nested_choices,
    split_evenly,
)

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_as_much_flows_as_the_least_cut_takes(seed: int):
    rng = random.Random(seed)
    size = rng.randint(2, 7)
    pairs = [(a, b) for a in range(size) for b in range(size) if a != b]
    edges = [(a, b, rng.randint(0, 9)) for a, b in pairs if rng.random() < 0.5]
    graph = FlowGraph(size)
    for edge in edges:
        graph.add(*edge)
    flow = graph.fill(0, 1)

    def cut(behind: tuple[bool, ...] | list[bool]) -> int:
        return sum(c for a, b, c in edges if behind[b] and not behind[a])

    sides = product((False, True), repeat=size - 2)
    cuts = [((False, True, *rest), cut((False, True, *rest))) for rest in sides]
    assert flow == min(c for _, c in cuts)
    found = graph.before(1)
    assert cut(found) == flow
    smallest = min(sum(side) for side, c in cuts if c == flow)
    assert sum(found) == smallest


def test_paths_of_all_lengths_are_not_filled_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
):
    depth, searches = 500, 0
    distances = FlowGraph.distances

    def counted(graph: FlowGraph, sink: int) -> list[int]:
        nonlocal searches
        searches += 1
        return distances(graph, sink)

    monkeypatch.setattr(FlowGraph, "distances", counted)
    # A running sum of small tensors, of which the last one alone is read.
    values = [ForwardValue(1), ForwardValue(2 * depth, [0], is_cheap=True)]
    for i in range(1, depth):
        last = len(values) - 1
        values.append(ForwardValue(1))
        is_read = i == depth - 1
        operands = [last, last + 1]
        values.append(ForwardValue(2 * depth, operands, is_cheap=True, is_read=is_read))
    assert kept_by_min_cut(values) == {*range(0, 2 * depth, 2)}
    assert searches < 5


def random_values(rng: random.Random) -> list[ForwardValue]:
    values: list[ForwardValue] = []
    for i in range(rng.randint(2, 11)):
        operands = rng.sample(range(i), min(i, rng.randint(1, 2)))
        again = bool(operands) and rng.random() < 0.9
        is_free = not operands and rng.random() < 0.5
        values.append(
            ForwardValue(
                rng.randint(1, 9),
                operands,
                rng.randint(1, 9),
                is_free=is_free,
                is_cheap=again and rng.random() < 0.7,
                is_repeatable=again,
                is_read=rng.random() < 0.4,
            )
        )
    return values


def is_enough(values: list[ForwardValue], kept: set[int], *, cheap: bool) -> bool:
    made = made_again(values, kept)
    return all(values[i].is_cheap if cheap else values[i].is_repeatable for i in made)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_choice_of_values_takes_fewer_bytes(seed: int):
    values = random_values(random.Random(seed))
    kept = kept_by_min_cut(values)
    assert is_enough(values, kept, cheap=True)
    choices = [
        {i for i, is_kept in enumerate(choice) if is_kept}
        for choice in product((False, True), repeat=len(values))
    ]
    enough = [choice for choice in choices if is_enough(values, choice, cheap=True)]
    assert bytes_of(values, kept) == min(bytes_of(values, x) for x in enough)
    assert bytes_of(values, kept) == kept_bytes(values, made_again(values, kept))


def bytes_of(values: list[ForwardValue], kept: set[int]) -> int:
    return sum(values[i].bytes for i in kept if not values[i].is_free)


@pytest.mark.parametrize("seed", SEEDS)
def test_segments_are_made_of_what_is_kept(seed: int):
    rng = random.Random(seed)
    values = random_values(rng)
    segments = split_evenly(values, rng.randint(1, 5))
    assert segments == sorted(segments)
    for kept in nested_choices(values, segments):
        assert is_enough(values, kept, cheap=False)


def test_segments_end_where_few_bytes_go_on():
    # Three blocks of an inner value of 8 bytes and an outer one of 1.
    values = [ForwardValue(1)]
    for block in range(3):
        values.append(ForwardValue(8, [2 * block], 1, is_repeatable=True, is_read=True))
        values.append(ForwardValue(1, [2 * block + 1], 1, is_repeatable=True))
    assert split_evenly(values, 3) == [0, 0, 0, 1, 1, 2, 2]
    *_, kept = nested_choices(values, split_evenly(values, 3))
    made = made_again(values, kept)
    assert made == [1, 3, 5]
    assert flops_of(values, made) == 3
