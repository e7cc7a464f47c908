"""Algorithms on graphs, against `graphlib` and powers of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from random import Random

import numpy as np
import pytest
from draws import fresh_seed
from numpy.typing import NDArray

from penstock.lowering.algorithms.graphs import (
    GrowingOrder,
    bits_of,
    components,
    cycle_behind,
    listed_order,
    reached,
    release,
)

Matrix = NDArray[np.bool_]

SEEDS = range(20)


def random_rows(seed: int, *, acyclic: bool) -> list[list[int]]:
    """For each node of a graph some other nodes, on a random path if it is acyclic."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12))
    edges = rng.random((count, count)) < rng.uniform(0.05, 0.5)
    np.fill_diagonal(edges, val=False)
    if acyclic:
        edges = np.tril(edges)
        places = rng.permutation(count)
        edges = edges[np.ix_(places, places)]
    return [np.flatnonzero(row).tolist() for row in edges]


def matrix_of(rows: Sequence[Sequence[int]]) -> Matrix:
    matrix = np.zeros((len(rows), len(rows)), np.bool_)
    for node, others in enumerate(rows):
        matrix[node, others] = True
    return matrix


def closure(matrix: Matrix) -> Matrix:
    """The nodes that paths of any number of edges lead to from each one."""
    paths = matrix | np.eye(len(matrix), dtype=np.bool_)
    for _ in matrix:
        paths = paths @ paths
    return paths


@pytest.mark.parametrize("seed", SEEDS)
def test_listed_order_takes_the_least_node_that_is_ready(seed: int):
    before = random_rows(seed, acyclic=True)
    sorter = TopologicalSorter(dict(enumerate(before)))
    sorter.prepare()
    ready: list[int] = []
    wanted: list[int] = []
    while sorter.is_active():
        ready += sorter.get_ready()
        ready.remove(least := min(ready))
        wanted.append(least)
        sorter.done(least)
    assert listed_order(before) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_orders_leave_out_what_is_on_a_cycle_or_behind_one(seed: int):
    before = random_rows(seed, acyclic=False)
    nodes = range(len(before))
    # A node waits for itself if a path of at least one edge leads back to it.
    paths = closure(matrix_of(before))
    on_cycle = [any(paths[y, x] for y in before[x]) for x in nodes]
    behind = {x for x in nodes if any(on_cycle[y] for y in reached(before, x))}
    order = listed_order(before)
    assert {*nodes} - {*order} == behind
    missing = [len(row) for row in before]
    after = [[y for y in nodes if x in before[y]] for x in nodes]
    released = release([x for x in nodes if not before[x]], after, missing)
    assert sorted(released) == sorted(order)
    assert {x for x in nodes if missing[x]} == behind
    for start in sorted(behind):
        cycle = cycle_behind(start, before, behind.__contains__)
        assert cycle[0] == min(cycle)
        assert {*cycle} <= reached(before, start)
        for one, other in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            assert one in before[other]


@pytest.mark.parametrize("seed", SEEDS)
def test_reached_and_components_are_those_of_powers_of_matrices(seed: int):
    rows = random_rows(seed, acyclic=False)
    matrix = matrix_of(rows)
    paths = closure(matrix)
    for start in range(len(rows)):
        assert reached(rows, start) == {*np.flatnonzero(paths[start]).tolist()}
    both = matrix | matrix.T
    sets = [sum(1 << y for y in np.flatnonzero(row).tolist()) for row in both]
    wanted = {tuple(np.flatnonzero(row).tolist()) for row in closure(both)}
    assert components(sets) == [[*part] for part in sorted(wanted)]


def test_bits_of_a_set_ascend():
    assert bits_of(0) == []
    assert bits_of(1 << 70 | 0b1101) == [0, 2, 3, 70]


def is_acyclic(size: int, edges: list[tuple[int, int]]) -> bool:
    """Whether the sorter of the standard library finds an order."""
    before: dict[int, set[int]] = {node: set() for node in range(size)}
    for source, target in edges:
        before[target].add(source)
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return False
    return True


def test_an_order_takes_edges_as_long_as_there_is_no_cycle():
    random = Random(fresh_seed())
    for _ in range(200):
        size = random.randint(1, 12)
        pairs = [(random.randrange(size), random.randrange(size)) for _ in range(40)]
        known = pairs[: random.randint(0, 6)]
        order = GrowingOrder(size, known)
        assert order.is_acyclic == is_acyclic(size, known)
        if not order.is_acyclic:
            continue
        marks: list[tuple[int, int]] = []
        while pairs:
            count = random.randint(1, 3)
            new, pairs = pairs[:count], pairs[count:]
            assert order.add(new) == is_acyclic(size, [*known, *new])
            if is_acyclic(size, [*known, *new]):
                marks.append((order.added - len(new), len(known)))
                known += new
            if marks and random.random() < 0.2:
                added, kept = marks.pop(random.randrange(len(marks)))
                marks = [mark for mark in marks if mark[0] < added]
                order.take_back(added)
                known = known[:kept]
