"""
Thousands of mutated plans: the overlaps that `verify-plan` finds against those that the
acts themselves show, unrolled one by one.

Plans are numbers here: tasks on streams, registers with slots and places, control. The
algorithm beneath `verify-plan` is called on them without IR.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, pairwise

import pytest
from draws import draws

from penstock.lowering.algorithms.marked_graph import (
    Edge,
    MarkedGraph,
    Storage,
    clashes,
)

PLANS = 50
MUTANTS = 20
ACTS = 16
"""Acts that are looked at: three and four slots meet in all ways within twelve."""

################################################################################
# Plans                                                                        #
################################################################################


@dataclass(frozen=True)
class Data:
    """A register: its writer, its readers, its slots, and where it lies."""

    writer: int
    readers: tuple[int, ...]
    size: int
    slots: int = 1
    start: int = 0

    @property
    def users(self) -> list[int]:
        return list(dict.fromkeys((self.writer, *self.readers)))

    @property
    def end(self) -> int:
        return self.start + self.size * self.slots

    def bytes_in(self, act: int) -> range:
        """The bytes that one act uses; slots follow each other."""
        start = self.start + act % self.slots * self.size
        return range(start, start + self.size)

    @property
    def storage(self) -> Storage:
        return Storage(
            self.start, self.end, self.writer, self.users, self.slots, self.size
        )


@dataclass(frozen=True)
class Control:
    """The second task acts after the first, whose acts `initial` slots stand for."""

    first: int
    second: int
    slots: int = 1
    initial: int = 0


@dataclass(frozen=True)
class Plan:
    """Tasks that act, by number."""

    tasks: int
    data: tuple[Data, ...]
    control: tuple[Control, ...]

    def edges(self) -> list[Edge]:
        edges: list[Edge] = []
        for x in self.data:
            for reader in x.readers:
                edges.append(Edge(x.writer, reader, 0))
                edges.append(Edge(reader, x.writer, x.slots))
        for x in self.control:
            edges.append(Edge(x.first, x.second, x.initial))
            edges.append(Edge(x.second, x.first, x.slots - x.initial))
        return edges


def random_plan(rng: random.Random) -> Plan:
    """
    Tasks on up to three streams, which control keeps in order, often with a last
    control back to the first task; registers lie as near to the start as they may.
    """
    tasks = rng.randrange(3, 9)
    streams: list[list[int]] = [[] for _ in range(rng.randrange(1, 4))]
    for task in range(tasks):
        rng.choice(streams).append(task)
    control: list[Control] = []
    for stream in streams:
        control += [Control(a, b) for a, b in pairwise(stream)]
        if len(stream) > 1 and rng.random() < 0.8:
            control.append(Control(stream[-1], stream[0], 1, 1))
    if rng.random() < 0.5:
        slots = rng.randrange(1, 3)
        control.append(Control(tasks - 1, 0, slots, slots))
    data: list[Data] = []
    for writer in range(tasks):
        for _ in range(rng.randrange(1, 3)):
            later = range(writer + 1, tasks)
            readers = rng.sample(later, min(len(later), rng.randrange(3)))
            slots = rng.choice([1, 1, 1, 2, 3, 4])
            size = rng.randrange(1, 4)
            data.append(Data(writer, tuple(sorted(readers)), size, slots))
    return laid_out(Plan(tasks, tuple(data), tuple(control)))


def laid_out(plan: Plan) -> Plan:
    """The plan with the lowest place for each register that meets no other one."""
    before = acts_before(plan.tasks, tuple(plan.edges()))
    placed: list[Data] = []
    for x in plan.data:
        starts = sorted({0, *(y.start + i for y in placed for i in range(5))})
        ends = [y.end for y in placed]
        for start in sorted({*starts, *ends}):
            tried = replace(x, start=start)
            if not any(meet(before, tried, y) for y in placed):
                placed.append(tried)
                break
    return replace(plan, data=tuple(placed))


################################################################################
# What may happen                                                              #
################################################################################


@lru_cache(maxsize=64)
def acts_before(tasks: int, edges: tuple[Edge, ...]) -> list[int]:
    """
    For each act of each task, numbered by act and then by task, the set of all that
    are over before it begins: the token game, in which whatever can act does. Nothing
    if tasks get stuck.
    """
    into: list[list[tuple[int, int]]] = [[(task, 1)] for task in range(tasks)]
    for source, target, tokens in edges:
        into[target].append((source, tokens))
    before = [-1] * (tasks * ACTS)
    done = [0] * tasks
    moved = True
    while moved:
        moved = False
        for task in range(tasks):
            while done[task] < ACTS and all(
                done[source] + tokens > done[task] for source, tokens in into[task]
            ):
                act, known = done[task], 0
                for source, tokens in into[task]:
                    if tokens <= act:
                        event = (act - tokens) * tasks + source
                        known |= before[event] | 1 << event
                before[act * tasks + task] = known
                done[task] += 1
                moved = True
    return before if min(done) == ACTS else []


def meet(before: Sequence[int], a: Data, b: Data) -> bool:
    """Whether two registers may be in use with a byte of both in some acts."""
    if a.end <= b.start or b.end <= a.start:
        return False
    tasks = len(before) // ACTS
    uses = [
        [sum(1 << (act * tasks + user) for user in x.users) for act in range(ACTS)]
        for x in (a, b)
    ]
    for act in range(ACTS):
        for other in range(ACTS):
            one, two = a.bytes_in(act), b.bytes_in(other)
            if one.stop <= two.start or two.stop <= one.start:
                continue
            until_b = before[other * tasks + b.writer]
            until_a = before[act * tasks + a.writer]
            if uses[0][act] & ~until_b and uses[1][other] & ~until_a:
                return True
    return False


def truth(plan: Plan) -> list[tuple[int, int]] | None:
    """The pairs of registers that may be in use together; None for a deadlock."""
    before = acts_before(plan.tasks, tuple(plan.edges()))
    if not before:
        return None
    return [
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(plan.data), 2)
        if meet(before, a, b)
    ]


def verdict(plan: Plan) -> list[tuple[int, int]] | None:
    """
    The clashes that the algorithm beneath `verify-plan` finds; None for a deadlock.
    """
    graph = MarkedGraph(plan.tasks, plan.edges())
    if graph.cycles:
        return None
    return clashes(graph, [x.storage for x in plan.data])


################################################################################
# Mutations                                                                    #
################################################################################


def changed_data(plan: Plan, rng: random.Random, **changes: int) -> Plan:
    index = rng.randrange(len(plan.data))
    data = list(plan.data)
    data[index] = replace(data[index], **changes)
    return replace(plan, data=tuple(data))


def move(plan: Plan, rng: random.Random) -> Plan:
    """Let a register start elsewhere."""
    return changed_data(plan, rng, start=rng.randrange(12))


def add_slots(plan: Plan, rng: random.Random) -> Plan:
    """Give a register another number of slots, and leave all places as they are."""
    return changed_data(plan, rng, slots=rng.randrange(1, 5))


def grow(plan: Plan, rng: random.Random) -> Plan:
    """Make a register larger than the space that was left for it."""
    return changed_data(plan, rng, size=rng.randrange(1, 6))


def shrink_block(plan: Plan, rng: random.Random) -> Plan:
    """Move all that lies behind some byte a few bytes to the front."""
    cut, by = rng.randrange(1, 8), rng.randrange(1, 4)
    data = [
        replace(x, start=max(0, x.start - by)) if x.start >= cut else x
        for x in plan.data
    ]
    return replace(plan, data=tuple(data))


def drop_control(plan: Plan, rng: random.Random) -> Plan:
    """Leave one control out, be it an order of a stream or the last one back."""
    if not plan.control:
        return move(plan, rng)
    index = rng.randrange(len(plan.control))
    rest = (*plan.control[:index], *plan.control[index + 1 :])
    return replace(plan, control=rest)


def loosen_control(plan: Plan, rng: random.Random) -> Plan:
    """Let the second task of a control be one act further ahead."""
    if not plan.control:
        return move(plan, rng)
    index = rng.randrange(len(plan.control))
    control = list(plan.control)
    old = control[index]
    free = rng.randrange(2)
    control[index] = replace(old, slots=old.slots + 1, initial=old.initial + free)
    return replace(plan, control=tuple(control))


def swap(plan: Plan, rng: random.Random) -> Plan:
    """Let two tasks change their places in the control of their streams."""
    a, b = rng.sample(range(plan.tasks), 2)
    other = {a: b, b: a}
    control = [
        replace(
            x, first=other.get(x.first, x.first), second=other.get(x.second, x.second)
        )
        for x in plan.control
    ]
    return replace(plan, control=tuple(control))


def drop_reader_edge(plan: Plan, rng: random.Random) -> Plan:
    """Move a reader of a register to another task."""
    index = rng.randrange(len(plan.data))
    data = list(plan.data)
    later = range(data[index].writer + 1, plan.tasks)
    if not later:
        return move(plan, rng)
    data[index] = replace(data[index], readers=(rng.choice(later),))
    return replace(plan, data=tuple(data))


MUTATIONS = (
    move,
    move,
    add_slots,
    grow,
    shrink_block,
    drop_control,
    drop_control,
    loosen_control,
    swap,
    drop_reader_edge,
)


def mutants(seed: int) -> Iterator[tuple[str, Plan]]:
    """Plans that a wrong pass might make of a right one."""
    rng = random.Random(seed)
    plan = random_plan(rng)
    for _ in range(MUTANTS):
        mutation = rng.choice(MUTATIONS)
        changed = mutation(plan, rng)
        yield mutation.__name__, changed


################################################################################
# Tests                                                                        #
################################################################################


@pytest.mark.slow
@pytest.mark.parametrize("part", range(draws(3)))
def test_overlaps_of_thousands_of_mutated_plans_are_found(part: int):
    planted: dict[str, int] = {}
    harmless = stuck = 0
    for seed in range(part * PLANS, part * PLANS + PLANS):
        plan = random_plan(random.Random(seed))
        assert verdict(plan) == truth(plan) == [], f"plan {seed}"
        for name, mutant in mutants(seed):
            wanted = truth(mutant)
            assert verdict(mutant) == wanted, f"{name} of plan {seed}"
            planted[name] = planted.get(name, 0) + bool(wanted)
            harmless += wanted == []
            stuck += wanted is None
    # Each kind of mutation is seen to do harm, and some do none.
    assert set(planted) == {mutation.__name__ for mutation in MUTATIONS}
    assert min(planted.values()) > 0
    assert sum(planted.values()) > 200
    assert min(harmless, 100 * stuck) > 100


def states(tasks: int, edges: Sequence[Edge], acts: int) -> set[tuple[int, ...]]:
    """
    All states of the token game: for each task twice its acts that are over, and one
    more while it acts.
    """
    first = (0,) * tasks
    seen: set[tuple[int, ...]] = {first}
    pending: list[tuple[int, ...]] = [first]
    while pending:
        state = pending.pop()
        for task in range(tasks):
            act, acts_now = divmod(state[task], 2)
            ready = all(
                state[source] // 2 + tokens > act
                for source, target, tokens in edges
                if target == task
            )
            if act < acts and (acts_now or ready):
                after = (*state[:task], state[task] + 1, *state[task + 1 :])
                if after not in seen:
                    seen.add(after)
                    pending.append(after)
    return seen


def in_use(x: Data, state: Sequence[int]) -> set[int]:
    """The bytes of a register that hold something somebody has yet to use."""
    begun = (state[x.writer] + 1) // 2
    over = min(state[user] // 2 for user in x.users)
    return {byte for act in range(over, begun) for byte in x.bytes_in(act)}


@pytest.mark.parametrize("seed", range(draws(13)))
def test_unrolled_acts_show_what_the_token_game_does(seed: int):
    rng = random.Random(seed)
    plan = random_plan(rng)
    while plan.tasks > 4:
        plan = random_plan(rng)
    plan = move(add_slots(plan, rng), rng)
    # The game is played for a few acts only: fewer slots, so that they see all.
    data = tuple(replace(x, slots=min(x.slots, 2)) for x in plan.data)
    plan = replace(plan, data=data)
    reached = states(plan.tasks, plan.edges(), 4)
    wanted = [
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(plan.data), 2)
        if any(in_use(a, state) & in_use(b, state) for state in reached)
    ]
    assert truth(plan) == wanted
