"""Registers that may share bytes, against all executions of small token games."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise

import pytest
from counted_work import LINEAR, growth_of
from draws import draws

from penstock.lowering.algorithms import block_layout as block_layouts
from penstock.lowering.algorithms import byte_sharing as sharing
from penstock.lowering.algorithms.block_layout import Demand, Layouter, Plan, stacked
from penstock.lowering.algorithms.byte_sharing import (
    CycleError,
    Edge,
    PartialOrder,
    Span,
    overlapping,
    sharing_of,
)
from penstock.lowering.algorithms.graphs import components
from penstock.lowering.algorithms.packing import Problem, pack

ACTS = 2
"""Acts that are played: what may happen between any two acts shows in these."""

State = tuple[tuple[int, int], ...]
"""The number of times that each task has begun, and that it has ended."""

################################################################################
# The token game                                                               #
################################################################################


def moves_from(state: State, edges: Sequence[Edge]) -> Iterator[State]:
    """All that may happen next: a task begins or ends."""
    for task, (begun, ended) in enumerate(state):
        after = (begun, ended + 1)
        if begun == ended:
            waits = [edge for edge in edges if edge.target == task]
            if begun == ACTS or any(
                state[edge.source][1] + edge.tokens <= begun for edge in waits
            ):
                continue
            after = (begun + 1, ended)
        yield (*state[:task], after, *state[task + 1 :])


def reachable(count: int, edges: Sequence[Edge]) -> set[State]:
    """All states of the game."""
    states: set[State] = {((0, 0),) * count}
    pending = list(states)
    while pending:
        for state in moves_from(pending.pop(), edges):
            if state not in states:
                states.add(state)
                pending.append(state)
    return states


def is_alive(state: State, span: Span) -> bool:
    """Whether a register is needed: from its first writer's begin to the last end."""
    return any(
        any(state[task][0] > act for task in span.first_writers)
        and any(state[task][1] <= act for task in span.users)
        for act in range(ACTS)
    )


def true_sharing(
    count: int, edges: Sequence[Edge], spans: Sequence[Span]
) -> set[tuple[int, int]]:
    """The pairs of registers that are alive together in no state."""
    met: set[tuple[int, int]] = set()
    for state in reachable(count, edges):
        alive = [i for i, span in enumerate(spans) if is_alive(state, span)]
        met.update(combinations(alive, 2))
    return {pair for pair in combinations(range(len(spans)), 2) if pair not in met}


################################################################################
# Random games                                                                 #
################################################################################


def random_edges(rng: random.Random, count: int) -> list[Edge]:
    """Edges without a cycle that has no token; lower tasks come first."""
    edges: list[Edge] = []
    for _ in range(rng.randrange(3 * count)):
        a, b = sorted(rng.sample(range(count), 2))
        edges.append(Edge(a, b, rng.choice([0, 0, 0, 1])))
        edges.append(Edge(b, a, rng.choice([1, 1, 1, 2])))
    return edges


def random_lines(rng: random.Random, count: int) -> list[list[int]]:
    """Up to two lists of tasks, in order."""
    tasks = rng.sample(range(count), rng.randrange(count + 1))
    cut = rng.randrange(len(tasks) + 1)
    return [sorted(line) for line in (tasks[:cut], tasks[cut:]) if line]


def line_edges(lines: Sequence[Sequence[int]]) -> list[Edge]:
    """The edges that make the tasks of lines act in order, one act after the other."""
    edges = [Edge(a, b, 0) for line in lines for a, b in pairwise(line)]
    return edges + [Edge(line[-1], line[0], 1) for line in lines]


def random_span(rng: random.Random, count: int) -> Span:
    """One to three users, of which one or two write first."""
    users = rng.sample(range(count), rng.randrange(1, min(3, count) + 1))
    return Span(users, users[: rng.choice([1, 1, 1, 2])])


Game = tuple[int, list[Edge], list[list[int]], list[Span]]


def random_game(seed: int) -> Game:
    """Tasks, edges, lines and registers."""
    rng = random.Random(seed)
    count = rng.randrange(2, 6)
    lines = random_lines(rng, count)
    edges = random_edges(rng, count) + line_edges(lines)
    spans: list[Span] = []
    for _ in range(rng.randrange(1, 7)):
        span = random_span(rng, count)
        # What a register's readers read is there.
        edges += [
            Edge(w, u, 0) for w in span.first_writers for u in span.users if w < u
        ]
        spans.append(Span(span.users, [w for w in span.users if is_first(w, span)]))
    return count, edges, lines, spans


def is_first(task: int, span: Span) -> bool:
    """Whether a user of a register may be one of its first writers."""
    return task in span.first_writers or task < min(span.first_writers)


@pytest.mark.parametrize("seed", range(draws(100)))
def test_what_may_share_is_never_alive_together(seed: int):
    count, edges, lines, spans = random_game(seed)
    found = sharing_of(PartialOrder(count, edges, lines), spans)
    wanted = true_sharing(count, edges, spans)
    for i, j in combinations(range(len(spans)), 2):
        assert bool(found.allowed[i] >> j & 1) == ((i, j) in wanted)
        assert bool(found.allowed[j] >> i & 1) == ((i, j) in wanted)
    assert not any(others >> i & 1 for i, others in enumerate(found.allowed))


def test_games_have_both_kinds_of_pairs():
    """The test above sees registers that may share bytes and others that may not."""
    pairs = allowed = 0
    for seed in range(300):
        count, edges, _, spans = random_game(seed)
        pairs += len(spans) * (len(spans) - 1) // 2
        allowed += len(true_sharing(count, edges, spans))
    assert 150 < allowed < pairs / 2


def test_all_first_writers_come_after_the_users_of_another_register():
    # The second writer of the first register is free to act before the other one.
    chain = [Edge(0, 1, 0), Edge(1, 2, 0), Edge(2, 0, 1)]
    spans = [Span([0], [0]), Span([1, 2, 3], [1, 3])]
    assert sharing_of(PartialOrder(4, chain), spans).allowed == [0, 0]
    further = [*chain, Edge(0, 3, 0), Edge(3, 0, 1)]
    assert sharing_of(PartialOrder(4, further), spans).allowed == [0b10, 0b01]


def test_what_is_behind_the_last_chain_shares_nothing(monkeypatch: pytest.MonkeyPatch):
    edges = [Edge(0, 1, 0), Edge(1, 2, 0), Edge(1, 3, 0)]
    edges += [Edge(2, 0, 1), Edge(3, 0, 1)]
    spans = [Span([task], [task]) for task in (0, 2, 3)]
    order = PartialOrder(4, edges)
    assert sharing_of(order, spans).allowed == [0b110, 0b001, 0b001]
    monkeypatch.setattr(sharing, "MAX_CHAINS", 1)
    order = PartialOrder(4, edges)
    assert sharing_of(order, spans).allowed == [0b010, 0b001, 0b000]
    demands = [Demand(4, 1, span) for span in spans]
    plan = Layouter(demands, 4, order, 0, pack).plan()
    reason = "unordered: too many tasks act in no order of their stream"
    assert plan.reasons == {2: reason}


def test_a_cycle_without_a_token_is_named():
    edges = [Edge(0, 1, 0), Edge(2, 3, 0), Edge(3, 4, 0), Edge(4, 2, 0), Edge(4, 1, 0)]
    with pytest.raises(CycleError, match=r"a cycle without a token: \[2, 3, 4\]"):
        PartialOrder(5, edges)


@pytest.mark.parametrize("seed", range(draws(16)))
def test_components_are_what_paths_connect(seed: int):
    rng = random.Random(seed)
    count = rng.randrange(1, 12)
    part = list(range(count))
    sets = [0] * count
    for _ in range(rng.randrange(count)):
        a, b = rng.randrange(count), rng.randrange(count)
        if a != b:
            sets[a] |= 1 << b
            sets[b] |= 1 << a
            part = [part[a] if p == part[b] else p for p in part]
    wanted = {frozenset(i for i in range(count) if part[i] == p) for p in part}
    assert {frozenset(members) for members in components(sets)} == wanted


@pytest.mark.parametrize("seed", range(draws(16)))
def test_overlaps_are_those_of_the_bytes(seed: int):
    rng = random.Random(seed)
    starts = [rng.randrange(16) for _ in range(10)]
    places = [range(start, start + rng.randrange(1, 8)) for start in starts]
    for i, (place, others) in enumerate(zip(places, overlapping(places), strict=True)):
        common = [j for j, x in enumerate(places) if not set(x).isdisjoint(place)]
        assert [j for j in range(10) if others >> j & 1] == [
            j for j in common if j != i
        ]


################################################################################
# Layouts                                                                      #
################################################################################


def layout_of(game: Game, demands: Sequence[Demand], alignment: int) -> Plan:
    """The blocks of a game's registers."""
    count, edges, lines, _ = game
    order = PartialOrder(count, edges, lines)
    return Layouter(demands, alignment, order, len(lines), pack).plan()


def demands_of(game: Game, rng: random.Random) -> list[Demand]:
    """Registers of several sizes, some of which are interfaces."""
    return [
        Demand(rng.choice([0, 4, 40, 64, 100]), 1, span, rng.random() < 0.1)
        for span in game[3]
    ]


def least_size(demands: Sequence[Demand], allowed: set[tuple[int, int]]) -> int:
    """The least end of any layout in which only these pairs share bytes."""
    count = len(demands)
    conflicts = [
        sum(1 << j for j in range(count) if j != i and not {(i, j), (j, i)} & allowed)
        for i in range(count)
    ]
    sizes = [demand.size for demand in demands]
    problem = Problem.of_conflicts(sizes, conflicts, 64)
    return problem.peak(pack(problem))


def bytes_together(
    members: Sequence[int], demands: Sequence[Demand], allowed: set[tuple[int, int]]
) -> int:
    """The most bytes of members of which no two may share any."""
    groups: list[tuple[int, ...]] = [()]
    for member in members:
        groups += [
            (*group, member)
            for group in groups
            if not any({(i, member), (member, i)} & allowed for i in group)
        ]
    return max(sum(demands[i].size for i in group) for group in groups)


@pytest.mark.parametrize("seed", range(draws(100)))
def test_layouts_are_right_and_as_small_as_can_be(seed: int):
    game = random_game(seed)
    demands = demands_of(game, random.Random(seed))
    plan = layout_of(game, demands, 64)
    allowed = {
        (i, j)
        for i, j in true_sharing(game[0], game[1], game[3])
        if not demands[i].is_interface and not demands[j].is_interface
    }
    places: dict[int, range] = {}
    end = 0
    for block in plan.layouts:
        for i, offset in zip(block.members, block.offsets, strict=True):
            assert offset % 64 == 0
            places[i] = range(end + offset, end + offset + demands[i].size)
            assert offset + demands[i].size <= block.size
        bound = bytes_together(block.members, demands, allowed)
        assert bound <= block.size <= block.sum
        end += -(-block.size // 64) * 64
    assert sorted(places) == list(range(len(demands)))
    for i, j in combinations(range(len(demands)), 2):
        assert (i, j) in allowed or set(places[i]).isdisjoint(places[j])
    size = max(place.stop for place in places.values())
    assert size <= least_size(demands, allowed)
    sized = {(i, j) for i, j in allowed if demands[i].size and demands[j].size}
    sharing = {i for pair in sized for i in pair}
    assert sorted(plan.reasons) == [i for i in range(len(demands)) if i not in sharing]


def test_with_too_many_pairs_lines_alone_share(monkeypatch: pytest.MonkeyPatch):
    """Two lines of four tasks, the second of which begins after the first task."""
    lines = [[0, 1, 2, 3], [4, 5, 6, 7]]
    edges = [*line_edges(lines), Edge(0, 4, 0), Edge(7, 0, 1)]
    spans = [Span([task], [task]) for task in range(8)]
    demands = [Demand(64, 1, span) for span in spans]
    game = 8, edges, lines, spans
    plan = layout_of(game, demands, 64)
    assert [block.size for block in plan.layouts] == [128]
    monkeypatch.setattr(block_layouts, "MAX_FURTHER_PAIRS", 0)
    again = layout_of(game, demands, 64)
    assert [block.size for block in again.layouts] == [128]
    assert again.layouts[0].offsets == [0] * 4 + [64] * 4


def test_what_loses_most_to_alignment_lies_last():
    assert stacked([4, 64, 100], 64) == [192, 0, 64]
    assert stacked([64, 128, 64], 64) == [0, 64, 192]
    assert stacked([0, 100], 64) == [0, 0]
    assert stacked([], 64) == []


@pytest.mark.parametrize("streams", [1, 2, 8])
def test_many_registers_take_linear_time(streams: int):
    def problem(size: int) -> Callable[[], object]:
        lines = [list(range(line, size, streams)) for line in range(streams)]
        edges = line_edges(lines) + [Edge(i, i + 1, 0) for i in range(0, size - 1, 10)]
        edges += [Edge(i + 1, i, 1) for i in range(0, size - 1, 10)]
        spans = [Span([i, min(i + 5, size - 1)], [i]) for i in range(size)]
        found = sharing_of(PartialOrder(size, edges, lines), spans)
        assert len(found.allowed) == size
        return lambda: sharing_of(PartialOrder(size, edges, lines), spans)

    assert growth_of(problem, 200) < LINEAR
