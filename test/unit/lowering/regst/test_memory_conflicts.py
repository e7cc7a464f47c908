"""Registers that may be in use together, against acts that are unrolled one by one."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest
from draws import draws

from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.tools.reports.memory.conflicts import (
    Span,
    apart,
    conflicts_of,
    without_common_bytes,
)

ACTS = 6


def random_case(seed: int) -> tuple[int, list[Edge], list[Span]]:
    """A graph without cycles in an act, with spans that have one or two writers."""
    rng = random.Random(seed)
    count = rng.randrange(2, 7)
    edges = [
        Edge(a, b, 0) for a, b in combinations(range(count), 2) if rng.random() < 0.4
    ]
    for _ in range(rng.randrange(count)):
        source, target = rng.randrange(count), rng.randrange(count)
        edges.append(Edge(source, target, rng.choice((1, 1, 2))))
    spans: list[Span] = []
    for _ in range(rng.randrange(1, 6)):
        writers = rng.sample(range(count), rng.choice((1, 1, 2)))
        readers = [a for a in range(count) if rng.random() < 0.3]
        spans.append(Span(list(dict.fromkeys((*writers, *readers))), writers))
    return count, edges, spans


def precedence(count: int, edges: list[Edge]) -> set[tuple[int, int, int, int]]:
    """All (a, n, b, m) such that the n-th act of a is over before the m-th of b."""
    acts = list(product(range(count), range(ACTS)))
    after: dict[tuple[int, int], set[tuple[int, int]]] = {act: set() for act in acts}
    for actor, act in acts:
        if act + 1 < ACTS:
            after[actor, act].add((actor, act + 1))
    for source, target, tokens in edges:
        for act in range(ACTS - tokens):
            after[source, act].add((target, act + tokens))
    closed: set[tuple[int, int, int, int]] = set()
    for start in acts:
        pending = list(after[start])
        seen = set(pending)
        for act in pending:
            new = after[act] - seen
            seen |= new
            pending += new
        closed |= {(*start, *act) for act in seen}
    return closed


def may_meet(one: Span, other: Span, before: set[tuple[int, int, int, int]]) -> bool:
    """Whether two uses in acts far from the ends may overlap."""
    for n, m in product(range(1, ACTS - 1), repeat=2):
        if abs(n - m) > 1:
            continue
        first = all((u, n, w, m) in before for u in one.users for w in other[1])
        second = all((u, m, w, n) in before for u in other.users for w in one[1])
        if not first and not second:
            return True
    return False


@pytest.mark.parametrize("seed", range(draws(100)))
def test_conflicts_are_those_of_unrolled_acts(seed: int) -> None:
    count, edges, spans = random_case(seed)
    table = conflicts_of(MarkedGraph(count, edges), spans)
    before = precedence(count, edges)
    for (i, one), (j, other) in combinations(enumerate(spans), 2):
        assert table[i, j] == table[j, i] == may_meet(one, other, before)
    assert not table.diagonal().any()


def test_of_a_cycle_that_never_acts_nothing_is_known() -> None:
    graph = MarkedGraph(2, [Edge(0, 1, 0), Edge(1, 0, 0)])
    assert not conflicts_of(graph, [Span([0], [0]), Span([1], [1])]).any()
    assert conflicts_of(MarkedGraph(0, []), []).shape == (0, 0)


def test_steps_hide_who_may_be_in_use_together() -> None:
    """Three writers without an order, which act one after the other in a list."""
    spans = [Span([i], [i]) for i in range(3)]
    table = conflicts_of(MarkedGraph(3, []), spans)
    pairs = apart(table, [(0, 0), (1, 2), (2, 2)])
    assert [[int(i) for i in row.nonzero()[0]] for row in pairs] == [[1, 2], [0], [0]]


def test_what_lies_on_common_bytes_is_not_in_use_together() -> None:
    spans = [Span([i], [i]) for i in range(4)]
    table = conflicts_of(MarkedGraph(4, []), spans)
    places = [(0, 0, 8), (0, 4, 12), (0, 8, 16), (1, 0, 8)]
    left = without_common_bytes(table, places)
    pairs = {(i, j) for i, j in combinations(range(4), 2) if left[i, j]}
    assert pairs == {(0, 2), (0, 3), (1, 3), (2, 3)}
    assert (left == left.T).all()
