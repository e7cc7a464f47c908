"""Programs on a virtual clock: when acts would be made, and that values stay right."""

import ctypes
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.errors import DeadlockError, PenstockError, TaskError
from penstock.runtime.executors.simulator import Simulation, simulate
from penstock.runtime.program.tables import Actor, Call, Register, Slot, Tables
from penstock.tools.session.session import Session

EXAMPLES = Path(__file__).parents[4] / "examples"

Flow = tuple[int, Sequence[int], int, int]
"""The producer of a register, its readers, slots, and how many are full at first."""


def program(workers: Sequence[int], flows: Sequence[Flow]) -> Tables:
    """Actors without kernels on these workers."""
    reads: list[list[int]] = [[] for _ in workers]
    writes: list[list[int]] = [[] for _ in workers]
    for index, (producer, readers, _, _) in enumerate(flows):
        writes[producer].append(index)
        for reader in readers:
            reads[reader].append(index)
    return Tables(
        [
            Register(f"r{i}", p, slots, full)
            for i, (p, _, slots, full) in enumerate(flows)
        ],
        [
            Actor(f"t{i}", worker, tuple(reads[i]), tuple(writes[i]))
            for i, worker in enumerate(workers)
        ],
    )


def spans(found: Simulation) -> list[tuple[str, int, int]]:
    names = [actor.name for actor in found.tables.actors]
    return [(names[act.actor], act.start, act.end) for act in found.acts]


CHAIN: list[Flow] = [(0, [1], 1, 0), (1, [2], 1, 0)]
DIAMOND: list[Flow] = [(0, [1, 2], 1, 0), (1, [3], 1, 0), (2, [3], 1, 0)]


@pytest.mark.parametrize(
    ("workers", "flows", "times", "makespan", "path"),
    [
        # One after the other, wherever they run.
        ([0, 0, 0], CHAIN, [1, 2, 3], 6, [0, 1, 2]),
        ([0, 1, 2], CHAIN, [1, 2, 3], 6, [0, 1, 2]),
        # The longer side of a diamond, 1 + 5 + 1, or both on one worker: 1 + 3 + 5 + 1.
        ([0, 1, 0, 0], DIAMOND, [1, 5, 3, 1], 7, [0, 1, 3]),
        ([0, 0, 0, 0], DIAMOND, [1, 5, 3, 1], 10, [0, 1, 2, 3]),
        # What shares nothing overlaps on two workers only.
        ([0, 1], [], [4, 9], 9, [1]),
        ([0, 0], [], [4, 9], 13, [0, 1]),
        ([0, 0], [], [0, 0], 0, [0]),
        ([], [], [], 0, []),
    ],
)
def test_makespan_is_the_length_of_the_critical_path(
    workers: Sequence[int],
    flows: Sequence[Flow],
    times: Sequence[int],
    makespan: int,
    path: Sequence[int],
):
    found = simulate(program(workers, flows), 1, times)
    assert found.makespan == makespan
    assert [act.actor for act in found.critical_path()] == path


def test_slots_let_acts_overlap():
    # A slot: the writer waits for its reader, 4 x (2 + 3). Two: only at the start.
    for slots, makespan in ((1, 20), (2, 14), (3, 14)):
        tables = program([0, 1], [(0, [1], slots, 0)])
        assert simulate(tables, 4, [2, 3]).makespan == makespan


def test_free_worker_takes_the_act_that_could_begin_first():
    found = simulate(program([0, 0, 0, 1], [(3, [0], 1, 0)]), 1, [1, 5, 5, 2])
    assert spans(found) == [
        ("t1", 0, 5),
        ("t3", 0, 2),
        ("t2", 5, 10),
        ("t0", 10, 11),
    ]
    assert (found.busy(0), found.busy(1)) == (11, 2)


@st.composite
def programs(draw: st.DrawFn, shared: bool) -> tuple[Tables, list[int], int]:
    """Acyclic programs, or such with tokens on the way back, and times."""
    count = draw(st.integers(1, 16))
    flows: list[Flow] = []
    for _ in range(draw(st.integers(0, 2 * count))):
        producer, reader = (draw(st.integers(0, count - 1)) for _ in range(2))
        slots = draw(st.integers(1, 3))
        full = 0 if producer < reader else draw(st.integers(1, slots))
        if producer == reader or (full == slots and producer < reader):
            continue
        # A full register needs a free slot before its writer can act.
        flows.append((producer, [reader], slots + full, full))
    last = draw(st.sampled_from([0, 1, 3, 7, 15]))
    workers = [draw(st.integers(0, last)) if shared else i for i in range(count)]
    times = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    return program(workers, flows), times, draw(st.integers(1, 6))


def ends_of(tables: Tables, times: Sequence[int], acts: int) -> list[list[int]]:
    """When acts end at the earliest if each actor has a worker of its own."""
    ends = [[0] * acts for _ in tables.actors]

    def end(actor: int, act: int) -> int:
        return ends[actor][act] if act >= 0 else 0

    # As often as the longest path could need: Bellman and Ford's way.
    for _ in range(acts * len(tables.actors) + 1):
        for act in range(acts):
            for actor, x in enumerate(tables.actors):
                starts = [end(actor, act - 1)]
                for index in x.reads:
                    register = tables.registers[index]
                    starts.append(end(register.producer, act - register.initial))
                for index, reader in tables.edges:
                    register = tables.registers[index]
                    if register.producer == actor:
                        back = act - register.slots + register.initial
                        starts.append(end(reader, back))
                ends[actor][act] = max(starts) + times[actor]
    return ends


@settings(max_examples=100, deadline=None)
@given(programs(shared=False))
def test_acts_end_as_early_as_their_registers_let_them(
    given: tuple[Tables, list[int], int],
):
    tables, times, acts = given
    found = simulate(tables, acts, times)
    expected = ends_of(tables, times, acts)
    seen = {(act.actor, act.number): act.end for act in found.acts}
    assert seen == {
        (actor, act): end
        for actor, ends in enumerate(expected)
        for act, end in enumerate(ends)
    }


@settings(max_examples=100, deadline=None)
@given(programs(shared=True))
def test_workers_make_one_act_at_a_time_and_causes_end_where_acts_begin(
    given: tuple[Tables, list[int], int],
):
    tables, times, acts = given
    found = simulate(tables, acts, times)
    assert len(found.acts) == acts * len(tables.actors)
    for worker in range(tables.workers):
        own = [a for a in found.acts if tables.actors[a.actor].worker == worker]
        own.sort(key=lambda act: (act.start, act.end))
        for before, after in pairwise(own):
            assert before.end <= after.start
    for act in found.acts:
        start = 0 if act.cause is None else found.acts[act.cause].end
        assert act.start == start
    path = found.critical_path()
    assert sum(act.end - act.start for act in path) == found.makespan


def test_values_are_those_of_the_program():
    seen: list[int] = []
    buffers = np.zeros((2, 2), np.int64)

    def write(args: int, part: int, parts: int) -> None:
        ctypes.c_int64.from_address(ctypes.c_int64.from_address(args).value).value = (
            10 + len(written)
        )
        written.append(0)

    def read(args: int, part: int, parts: int) -> None:
        place = ctypes.c_int64.from_address(args).value
        seen.append(ctypes.c_int64.from_address(place).value)

    written: list[int] = []
    kernels = Callback(write), Callback(read)
    actors = [
        Actor("write", 0, (), (0,), (Call(kernels[0].address, (Slot(0),)),)),
        Actor("read", 1, (0,), (), (Call(kernels[1].address, (Slot(0),)),)),
    ]
    place = buffers.ctypes.data, 16
    tables = Tables([Register("x", 0, 2, 0, *place)], actors, kernels)
    simulate(tables, 5, [1, 7])
    assert seen == [10, 11, 12, 13, 14]


def test_errors_are_those_of_other_executors():
    with pytest.raises(DeadlockError) as deadlock:
        simulate(program([0, 0], [(0, [1], 1, 0), (1, [0], 1, 0)]), 1, [1, 1])
    assert "'t0' at act 0: no piece in register 'r1' from 't1'" in str(deadlock.value)
    bad = Callback(lambda args, part, parts: 4)
    tables = Tables([], [Actor("bad", calls=(Call(bad.address),))], [bad])
    with pytest.raises(TaskError, match="task 'bad' failed at act 0 with code 4"):
        simulate(tables, 1, [1])


@pytest.mark.parametrize(
    ("times", "acts", "message"),
    [
        ([1], 1, "there are 2 actors, got 1 times"),
        ([1, -2], 1, "times must not be negative, got -2"),
        ([1, 2], -1, "the number of acts must not be negative, got -1"),
    ],
)
def test_what_cannot_be_simulated(times: Sequence[int], acts: int, message: str):
    with pytest.raises(PenstockError) as caught:
        simulate(program([0, 0], []), acts, times)
    assert str(caught.value) == message


def test_whole_program():
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    pieces = [{"x": x}, {"x": 3 * x}, {"x": -x}]
    with Session.open(EXAMPLES / "program.mlir") as session:
        executor = session.executor
        names = [actor.name for actor in executor.program.tables.actors]
        results, found = executor.simulate(pieces, dict.fromkeys(names, 10))
        again = session.run_many(pieces)
        with pytest.raises(PenstockError) as caught:
            executor.simulate(pieces, {})
        with pytest.raises(PenstockError) as many:
            executor.simulate(pieces * 86, dict.fromkeys(names, 10))
    for result, expected in zip(results, again, strict=True):
        assert {k: v.tolist() for k, v in result.items()} == {
            k: v.tolist() for k, v in expected.items()
        }
    assert found.makespan == 10 * len(names) * len(pieces)
    listed = ", ".join(sorted(names))
    assert str(caught.value) == f"no times are given for actors {listed}"
    assert str(many.value) == "at most 256 pieces can be simulated, got 258"
