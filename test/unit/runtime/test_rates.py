"""Actors whose pieces last for several acts: acc, repeat, pack, unpack."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import lcm

import numpy as np
import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.utils.repetitions import (
    MOST_ACTS,
    Flow,
    RateError,
    TimesError,
    TooManyActs,
    repetition_vector,
)
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.errors import (
    DeadlockError,
    PenstockError,
    TaskError,
)
from penstock.runtime.executors.reference import run_sequential
from penstock.runtime.executors.simulator import simulate
from penstock.runtime.program.deadlock import find_deadlock
from penstock.runtime.program.tables import Actor, Call, Register, Slot, Tables, Words

Piece = tuple[int, ...]


def words_at(address: int, width: int) -> Words:
    kind = ctypes.c_int64 * width
    return np.ctypeslib.as_array(kind.from_address(address))


@dataclass
class Value:
    """A register, the words of a piece, and those that lie below it, with their n."""

    register: int
    width: int
    pieces: list[Piece]
    held: tuple[tuple[int, int], ...] = ()

    @property
    def is_view(self) -> bool:
        return bool(self.held)


@dataclass
class Network:
    """Builds a program, and next to it with lists what all of its pieces are."""

    workers: int
    draw: Callable[[int], int]
    registers: list[Register] = field(default_factory=list[Register])
    actors: list[Actor] = field(default_factory=list[Actor])
    callbacks: list[Callback] = field(default_factory=list[Callback])
    memory: list[Words] = field(default_factory=list[Words])
    seen: list[list[Piece]] = field(default_factory=list[list[Piece]])
    expected: list[list[Piece]] = field(default_factory=list[list[Piece]])

    def register(self, width: int) -> int:
        slots = 1 + self.draw(3)
        buffer = np.zeros(slots * width, np.int64)
        self.memory.append(buffer)
        place = buffer.ctypes.data, 8 * width
        number = len(self.registers)
        name = f"r{number}"
        self.registers.append(Register(name, len(self.actors), slots, 0, *place))
        return number

    def actor(
        self,
        values: Sequence[Value],
        writes: Sequence[int],
        calls: Sequence[Call] = (),
        every: Sequence[tuple[int, int]] = (),
    ) -> None:
        held = [pair for value in values for pair in value.held]
        reads = dict.fromkeys([*(x.register for x in values), *(r for r, _ in held)])
        self.actors.append(
            Actor(
                f"a{len(self.actors)}",
                self.draw(self.workers),
                tuple(reads),
                tuple(writes),
                tuple(calls),
                (*every, *dict(held).items()),
            )
        )

    def call(
        self,
        function: Callable[[Sequence[int]], None],
        args: Sequence[Slot],
        when: str = "always",
    ) -> Call:
        def kernel(address: int, part: int, parts: int) -> None:
            row = (ctypes.c_int64 * len(args)).from_address(address)
            function(list(row))

        self.callbacks.append(Callback(kernel))
        return Call(self.callbacks[-1].address, tuple(args), when=when)

    def source(self, width: int, count: int) -> Value:
        acts = iter(range(1 << 40))
        first = 1000 * len(self.actors)

        def fill(row: Sequence[int]) -> None:
            act = next(acts)
            words_at(row[0], width)[:] = [first + act * width + i for i in range(width)]

        result = self.register(width)
        self.actor([], [result], [self.call(fill, [Slot(result)])])
        pieces = [
            tuple(first + act * width + i for i in range(width)) for act in range(count)
        ]
        return Value(result, width, pieces)

    def add(self, *values: Value) -> Value:
        width = values[0].width

        def run(row: Sequence[int]) -> None:
            terms = [words_at(x, width) for x in row[:-1]]
            words_at(row[-1], width)[:] = np.sum(terms, axis=0)

        result = self.register(width)
        slots = [Slot(value.register) for value in values]
        self.actor(values, [result], [self.call(run, [*slots, Slot(result)])])
        pieces = zip(*(value.pieces for value in values), strict=True)
        return Value(
            result,
            width,
            [tuple(map(sum, zip(*group, strict=True))) for group in pieces],
        )

    def own(self, value: Value) -> Value:
        return self.add(value) if value.is_view else value

    def acc(self, value: Value, n: int) -> Value:
        width = value.width

        def copy(row: Sequence[int]) -> None:
            words_at(row[1], width)[:] = words_at(row[0], width)

        def add(row: Sequence[int]) -> None:
            words_at(row[1], width)[:] += words_at(row[0], width)

        result = self.register(width)
        args = [Slot(value.register), Slot(result)]
        calls = [self.call(copy, args, "first"), self.call(add, args, "rest")]
        self.actor([value], [result], calls, [(result, n)])
        groups = [value.pieces[i : i + n] for i in range(0, len(value.pieces), n)]
        sums = [tuple(map(sum, zip(*group, strict=True))) for group in groups]
        return Value(result, width, sums)

    def pack(self, value: Value, n: int) -> Value:
        width = value.width

        def copy(row: Sequence[int]) -> None:
            words_at(row[1], width)[:] = words_at(row[0], width)

        result = self.register(n * width)
        args = [Slot(value.register), Slot(result, 8 * width)]
        self.actor([value], [result], [self.call(copy, args)], [(result, n)])
        pieces = [
            tuple(x for piece in value.pieces[i : i + n] for x in piece)
            for i in range(0, len(value.pieces), n)
        ]
        return Value(result, n * width, pieces)

    def view(self, value: Value, n: int, step: int) -> int:
        below = self.registers[value.register]
        number = len(self.registers)
        place = {"parts": n, "step": step, "slots": n * below.slots}
        self.registers.append(
            replace(below, name=f"r{number}", producer=len(self.actors), **place)
        )
        self.actor([value], [number], every=[(value.register, n)])
        return number

    def repeat(self, value: Value, n: int) -> Value:
        value = self.own(value)
        number = self.view(value, n, 0)
        pieces = [piece for piece in value.pieces for _ in range(n)]
        return Value(number, value.width, pieces, ((value.register, n),))

    def unpack(self, value: Value, n: int) -> Value:
        value = self.own(value)
        width = value.width // n
        number = self.view(value, n, 8 * width)
        pieces = [
            piece[i : i + width]
            for piece in value.pieces
            for i in range(0, value.width, width)
        ]
        return Value(number, width, pieces, ((value.register, n),))

    def sink(self, value: Value) -> None:
        seen: list[Piece] = []

        def take(row: Sequence[int]) -> None:
            seen.append(tuple(map(int, words_at(row[0], value.width))))

        self.actor([value], [], [self.call(take, [Slot(value.register)])])
        self.seen.append(seen)
        self.expected.append(value.pieces)

    def tables(self) -> Tables:
        return Tables(self.registers, self.actors, self.callbacks)


def random_network(seed: int) -> Network:
    """Some ops of all kinds on one source, that can be checked with lists."""
    random = np.random.default_rng(seed)

    def draw(count: int) -> int:
        return int(random.integers(count))

    network = Network(1 + draw(3), draw)
    pieces = 4**3
    values = [network.source(4, pieces)]
    for _ in range(1 + draw(6)):
        value = values[draw(len(values))]
        n = (2, 4)[draw(2)]
        fits = [x for x in values if len(x.pieces) == len(value.pieces)]
        fits = [x for x in fits if x.width == value.width]
        match draw(5):
            case 0 if len(value.pieces) % n == 0 and len(value.pieces) > 1:
                made = network.acc(value, n)
            case 1 if len(value.pieces) <= pieces:
                made = network.repeat(value, n)
            case 2 if len(value.pieces) % n == 0 and value.width < 64:
                made = network.pack(value, n)
            case 3 if value.width % n == 0 and len(value.pieces) <= pieces:
                made = network.unpack(value, n)
            case _:
                made = network.add(value, fits[draw(len(fits))])
        values.append(made)
    for value in values:
        network.sink(value)
    return network


def run_core(tables: Tables, acts: int) -> None:
    with Core(tables) as core:
        core.run(acts)


def run_sim(tables: Tables, acts: int) -> None:
    simulate(tables, acts, [1 + i % 3 for i in range(len(tables.actors))])


engines = pytest.mark.parametrize("run", [run_core, run_sequential, run_sim])


@engines
@pytest.mark.parametrize("seed", range(draws(12)))
def test_random_networks_hand_on_the_pieces_that_lists_say(
    run: Callable[[Tables, int], None], seed: int
) -> None:
    network = random_network(seed)
    tables = network.tables()
    source = tables.repetitions[0]
    assert len(network.expected[0]) % source == 0
    count = len(network.expected[0]) // source
    if find_deadlock(tables) is not None:
        # A sum of pieces and of those that went through a batch needs all of it.
        with pytest.raises(DeadlockError):
            run(tables, count)
        return
    run(tables, count)
    for seen, expected in zip(network.seen, network.expected, strict=True):
        assert seen == expected


def accumulate(n: int, slots: int = 1) -> Network:
    """A source of one word, the sums of n pieces, and who takes them."""
    network = Network(1, lambda count: min(slots - 1, count - 1))
    network.sink(network.acc(network.source(1, 24), n))
    return network


@engines
def test_a_sum_is_handed_on_after_its_last_term(
    run: Callable[[Tables, int], None],
) -> None:
    network = accumulate(4)
    tables = network.tables()
    assert tables.repetitions == [4, 4, 1]
    run(tables, 2)
    assert network.seen == [[(0 + 1 + 2 + 3,), (4 + 5 + 6 + 7,)]]


def test_runs_go_on_where_the_last_one_ended() -> None:
    network = accumulate(3)
    with Core(network.tables()) as core:
        core.run(1)
        core.run(2)
    assert network.seen == [[(3,), (12,), (21,)]]


def test_terms_are_given_back_at_once_and_a_sum_waits_for_room() -> None:
    network = accumulate(2)
    tables = network.tables()
    # One worker. The third term waits until the sink has taken the first sum.
    found = simulate(tables, 2, [1, 1, 10])
    acts = [(act.actor, act.number, act.start) for act in found.acts]
    assert acts == [
        (0, 0, 0),
        (1, 0, 1),
        (0, 1, 2),
        (1, 1, 3),
        (0, 2, 4),
        (2, 0, 5),
        (1, 2, 15),
        (0, 3, 16),
        (1, 3, 17),
        (2, 1, 18),
    ]


@engines
def test_a_failing_act_is_counted_in_the_acts_of_its_actor(
    run: Callable[[Tables, int], None],
) -> None:
    calls = iter(range(100))
    bad = Callback(lambda args, part, parts: 7 if next(calls) == 5 else 0)
    registers = [Register("x", 0), Register("y", 1)]
    actors = [
        Actor("a", writes=(0,), calls=(Call(bad.address),)),
        Actor("b", reads=(0,), writes=(1,), every=((1, 4),)),
        Actor("c", reads=(1,)),
    ]
    with pytest.raises(TaskError) as raised:
        run(Tables(registers, actors, [bad]), 3)
    assert (raised.value.task, raised.value.act, raised.value.code) == ("a", 5, 7)


def test_a_failing_act_of_a_later_run_is_counted_from_its_start() -> None:
    calls = iter(range(100))
    bad = Callback(lambda args, part, parts: 7 if next(calls) == 5 else 0)
    actors = [
        Actor("a", writes=(0,), calls=(Call(bad.address),)),
        Actor("b", reads=(0,), writes=(1,), every=((1, 4),)),
        Actor("c", reads=(1,)),
    ]
    tables = Tables([Register("x", 0), Register("y", 1)], actors, [bad])
    with Core(tables) as core:
        core.run(1)
        with pytest.raises(TaskError) as raised:
            core.run(1)
    assert raised.value.act == 1


def test_rates_that_do_not_suit_each_other_name_both_actors() -> None:
    registers = [Register("x", 0), Register("y", 1), Register("z", 0)]
    actors = [
        Actor("a", writes=(0, 2)),
        Actor("b", reads=(0,), writes=(1,), every=((1, 2),)),
        Actor("c", reads=(1, 2)),
    ]
    with pytest.raises(PenstockError) as raised:
        Tables(registers, actors)
    assert str(raised.value) == (
        "actors 'b' and 'c' hand on register 'y' every 2 and every 1 acts, but act 1 "
        "and 1 times in an iteration"
    )


def test_a_deadlock_within_a_turn_is_found_before_the_run_and_in_it() -> None:
    registers = [Register("x", 0), Register("back", 1, 2, 1)]
    actors = [
        Actor("a", reads=(1,), writes=(0,), every=((0, 2),)),
        Actor("b", reads=(0,), writes=(1,), every=((0, 2),)),
    ]
    tables = Tables(registers, actors)
    assert tables.repetitions == [2, 2]
    assert sorted(find_deadlock(tables) or ()) == ["a", "b"]
    for run in (run_core, run_sequential, run_sim):
        with pytest.raises(DeadlockError) as raised:
            run(tables, 1)
        assert raised.value.stuck == [
            "'a' at act 1: no piece in register 'back' from 'b'",
            "'b' at act 0: no piece in register 'x' from 'a'",
        ]
    enough = Tables([registers[0], replace(registers[1], initial=2)], actors)
    assert find_deadlock(enough) is None
    run_core(enough, 3)


@pytest.mark.parametrize(
    ("actor", "message"),
    [
        (
            Actor("a", writes=(0,), every=((0, 0),)),
            "actor 'a' has a piece of register 0 every 0 acts, which it does not use",
        ),
        (
            Actor("a", writes=(0,), every=((1, 2),)),
            "actor 'a' has a piece of register 1 every 2 acts, which it does not use",
        ),
        (
            Actor(
                "a",
                writes=(0, 1),
                calls=(Call(1, (Slot(0), Slot(1))),),
                every=((0, 3), (1, 2)),
            ),
            "actor 'a' has rounds of different lengths",
        ),
        (
            Actor("a", writes=(0, 1), calls=(Call(1, when="often"),)),
            "a call of actor 'a' is made 'often', not always, first or rest",
        ),
    ],
)
def test_actors_that_cannot_be_are_refused(actor: Actor, message: str) -> None:
    with pytest.raises(PenstockError) as raised:
        Tables([Register("x", 0), Register("y", 0)], [actor])
    assert str(raised.value) == message


def test_slots_of_frames_are_whole() -> None:
    with pytest.raises(PenstockError) as raised:
        Tables([Register("x", 0, 3, parts=2)], [Actor("a", writes=(0,))])
    assert (
        str(raised.value) == "register 'x' has 3 slots, not a multiple of its 2 parts"
    )


# The repetition vector ---------------------------------------------------------------


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_turns_balance_all_flows_and_have_no_smaller_solution(
    data: st.DataObject,
) -> None:
    count = data.draw(st.integers(1, 7))
    small = st.integers(1, 6)
    chosen = data.draw(st.lists(small, min_size=count, max_size=count))
    flows: list[Flow] = []
    for target in range(1, count):
        if data.draw(st.booleans()):
            source = data.draw(st.integers(0, target - 1))
            # One piece in every `made` acts; equal numbers of pieces on both sides.
            made, taken = chosen[source], chosen[target]
            flows.append(Flow(source, target, made, taken))
    rounds = [1] * count
    for flow in flows:
        rounds[flow.source] = lcm(rounds[flow.source], int(flow.made))
        rounds[flow.target] = lcm(rounds[flow.target], int(flow.taken))
    found = repetition_vector(flows, rounds)
    for flow in flows:
        assert found[flow.source] * flow.taken == found[flow.target] * flow.made
    assert all(n % m == 0 for n, m in zip(found, rounds, strict=True))
    parent = list(range(count))
    for flow in flows:
        old, new = parent[flow.target], parent[flow.source]
        parent = [new if x == old else x for x in parent]
    for group in set(parent):
        members = [i for i in range(count) if parent[i] == group]
        assert np.gcd.reduce([found[i] // rounds[i] for i in members]) == 1


def test_a_flow_that_does_not_balance_is_told_with_the_acts_of_others() -> None:
    flows = [Flow(0, 1), Flow(1, 2, 4, 1), Flow(0, 2, 2, 1)]
    with pytest.raises(RateError) as raised:
        repetition_vector(flows, [1, 1, 1])
    assert (raised.value.index, raised.value.acts, raised.value.others) == (1, 2, 1)


def test_what_is_said_of_an_iteration_counts_for_all_that_is_connected() -> None:
    flows = [Flow(0, 1), Flow(2, 3, 2, 1), Flow(4, 5, 3, 1)]
    rounds = [1, 1, 2, 1, 3, 1]
    assert repetition_vector(flows, rounds) == [1, 1, 2, 1, 3, 1]
    assert repetition_vector(flows, rounds, {1: 4, 3: 2}) == [4, 4, 4, 2, 3, 1]


@pytest.mark.parametrize(("times", "wrong"), [({0: 4, 1: 3}, (1, 3)), ({2: 3}, (2, 3))])
def test_what_is_said_of_an_iteration_has_to_suit(
    times: dict[int, int], wrong: tuple[int, int]
) -> None:
    """The first differs from what others say, the second from the acts of a round."""
    flows = [Flow(0, 1), Flow(2, 3, 2, 1)]
    with pytest.raises(TimesError) as raised:
        repetition_vector(flows, [1, 1, 2, 1], times)
    assert (raised.value.index, raised.value.times) == wrong


def test_tables_refuse_messages_at_other_rates() -> None:
    actors = [
        Actor("writer", writes=(0,), times=4),
        Actor("reader", reads=(0,), times=3),
    ]
    text = "actor 'reader' has a message 3 times in an iteration, which does not suit"
    with pytest.raises(PenstockError, match=text):
        Tables([Register("r", 0, 2, 0)], actors)


def test_acts_of_a_turn_have_a_limit() -> None:
    flows = [Flow(0, 1, 1, MOST_ACTS), Flow(1, 2)]
    assert repetition_vector(flows, [1, 1, 1]) == [1, MOST_ACTS, MOST_ACTS]
    with pytest.raises(TooManyActs) as raised:
        repetition_vector([*flows, Flow(2, 3, 1, 10**9)], [1, 1, 1, 1])
    assert (raised.value.index, raised.value.acts) == (3, 10**9 * MOST_ACTS)


def test_tables_refuse_more_acts_than_the_limit() -> None:
    actors = [
        Actor("writer", writes=(0,)),
        Actor("reader", reads=(0,), every=((0, 20000),)),
    ]
    message = (
        "actor 'reader' acts in an iteration 20000 times, which may be 16384 at most"
    )
    with pytest.raises(PenstockError, match=message):
        Tables([Register("r", 0)], actors)
