"""Programs without Python: the caller runs them, and any thread any worker."""

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np
import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cfunc

from penstock.runtime.core.atomics import load_word, store_word
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import KERNEL, Callback
from penstock.runtime.errors import DeadlockError, TaskError
from penstock.runtime.executors.reference import run_sequential
from penstock.runtime.program.deadlock import find_deadlock
from penstock.runtime.program.tables import (
    Actor,
    Call,
    Fixed,
    Register,
    Slot,
    Tables,
    Words,
)

Until: TypeAlias = Callable[[Callable[[], bool]], None]

Start: TypeAlias = Callable[..., "Future[Any]"]

pytestmark = pytest.mark.usefixtures("both_loops")

LIMIT = 1_000_003
LOG = 64


@cfunc(KERNEL)
def _add_up(args: int, part: int, parts: int) -> int:
    """
    Write 1 + number + act + what is read to all results, and to a log of acts.

    The row: [number, act so far, ..., log of 64] of the actor, reads, writes, and so
    many slots.
    """
    own, reads = load_word(args), load_word(args + 8)
    writes = load_word(args + 16)
    act = load_word(own + 8)
    store_word(own + 8, act + 1)
    value = 1 + load_word(own) + act
    for i in range(reads):
        value += load_word(load_word(args + 24 + 8 * i))
    value %= 1_000_003
    for i in range(reads, reads + writes):
        store_word(load_word(args + 24 + 8 * i), value)
    store_word(own + 16 + 8 * (act % 64), value)
    return 0


@cfunc(KERNEL)
def _fail_at(args: int, part: int, parts: int) -> int:
    """The code 5 in the call of a number, for a row [that number and calls so far]."""
    place = load_word(args)
    calls = load_word(place + 8)
    store_word(place + 8, calls + 1)
    return 5 if calls == load_word(place) else 0


@cfunc(KERNEL)
def _nothing(args: int, part: int, parts: int) -> int:
    return 0


ADD_UP, FAIL_AT, NOTHING = (
    cast(int, kernel.address) for kernel in (_add_up, _fail_at, _nothing)
)


@dataclass
class Job:
    """
    Actors on workers, of which some also call Python; flows are (producer, readers,
    slots). It holds the memory of its tables, so keep it while they run.
    """

    workers: Sequence[int]
    flows: Sequence[tuple[int, Sequence[int], int]]
    callers: Sequence[int] = ()
    notes: list[Words] = field(default_factory=list[Words])
    memory: list[Words] = field(default_factory=list[Words])

    def tables(self) -> Tables:
        registers = [self._register(i) for i in range(len(self.flows))]
        self.notes = [np.zeros(2 + LOG, np.int64) for _ in self.workers]
        python = Callback(lambda args, part, parts: None)
        actors = [self._actor(i) for i in range(len(self.workers))]
        for i in self.callers:
            calls = (*actors[i].calls, Call(python.address))
            actors[i] = replace(actors[i], calls=calls)
        return Tables(registers, actors, [python])

    def _register(self, index: int) -> Register:
        producer, _, slots = self.flows[index]
        self.memory.append(np.zeros(slots, np.int64))
        return Register(f"r{index}", producer, slots, 0, self.memory[-1].ctypes.data, 8)

    def _actor(self, index: int) -> Actor:
        flows = list(enumerate(self.flows))
        reads = tuple(i for i, flow in flows if index in flow[1])
        writes = tuple(i for i, flow in flows if index == flow[0])
        self.notes[index][0] = index
        words = self.notes[index].ctypes.data, len(reads), len(writes)
        args = (*map(Fixed, words), *map(Slot, reads + writes))
        call = Call(ADD_UP, args)
        return Actor(f"a{index}", self.workers[index], reads, writes, (call,))

    def expected(self, acts: int) -> list[list[int]]:
        values: list[list[int]] = [[] for _ in self.workers]
        for act in range(acts):
            for actor in range(len(self.workers)):
                read = [values[p][act] for p, xs, _ in self.flows if actor in xs]
                values[actor].append((1 + actor + act + sum(read)) % LIMIT)
        return values

    def seen(self, acts: int) -> list[list[int]]:
        return [note[2 : 2 + acts].tolist() for note in self.notes]


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Acyclic jobs of up to 12 actors on up to 4 workers."""
    count = draw(st.integers(2, 12))
    workers = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    flows: list[tuple[int, list[int], int]] = []
    for _ in range(draw(st.integers(0, 2 * count))):
        producer = draw(st.integers(0, count - 2))
        readers = st.lists(st.integers(producer + 1, count - 1), unique=True)
        flows.append((producer, draw(readers), draw(st.integers(1, 3))))
    callers = st.lists(st.integers(0, count - 1), unique=True, max_size=2)
    return Job(workers, flows, draw(st.just([]) | callers))


@pytest.mark.slow
@settings(max_examples=draws(60), deadline=None)
@given(jobs(), st.integers(1, 12), st.integers(1, 5))
def test_every_actor_sees_the_values_of_its_own_act(job: Job, acts: int, threads: int):
    with Core(job.tables(), threads) as core:
        core.run(1)
        core.run(acts)
    assert job.seen(acts + 1) == job.expected(acts + 1)

    run_sequential(job.tables(), acts)
    assert job.seen(acts) == job.expected(acts)


def test_many_short_runs_of_actors_on_alternating_workers():
    flows = [(i, [i + 1], 1 + i % 2) for i in range(19)]
    job = Job([i % 3 for i in range(20)], flows)
    with Core(job.tables()) as core:
        for _ in range(3000):
            core.run(1)
    assert [note[1] for note in job.notes] == [3000] * 20
    first, last = 3000 - LOG, 3000
    expected = [values[first:last] for values in job.expected(last)]
    for note, values in zip(job.notes, expected, strict=True):
        assert note[2:].tolist() == np.roll(values, first % LOG).tolist()


@settings(max_examples=draws(30), deadline=None)
@given(st.data())
def test_deadlocks_are_found_and_nothing_else(data: st.DataObject):
    count = data.draw(st.integers(1, 6))
    actor = st.integers(0, count - 1)
    registers: list[Register] = []
    reads: list[list[int]] = [[] for _ in range(count)]
    writes: list[list[int]] = [[] for _ in range(count)]
    for index in range(data.draw(st.integers(0, 2 * count))):
        slots = data.draw(st.integers(1, 3))
        initial = data.draw(st.sampled_from([0, 0, 1, slots]))
        producer = data.draw(actor)
        registers.append(Register(f"r{index}", producer, slots, initial))
        writes[producer].append(index)
        for reader in data.draw(st.lists(actor, unique=True, max_size=2)):
            reads[reader].append(index)
    actors = [
        Actor(f"t{i}", data.draw(st.integers(0, 2)), tuple(reads[i]), tuple(writes[i]))
        for i in range(count)
    ]
    tables = Tables(registers, actors)
    with Core(tables, data.draw(st.integers(1, 4))) as core:
        if find_deadlock(tables) is None:
            core.run(20)
        else:
            with pytest.raises(DeadlockError):
                core.run(20)


@pytest.mark.parametrize("threads", [1, 3])
def test_core_is_as_new_after_an_error(threads: int):
    job = Job([0, 1, 2], [(0, [1], 3), (1, [2], 2)])
    tables = job.tables()
    failure = np.array([7, 0])
    call = Call(FAIL_AT, (Fixed(failure.ctypes.data),))
    actors = list(tables.actors)
    middle = actors[1]
    actors[1] = Actor("bad", 1, middle.reads, middle.writes, (call, *middle.calls))
    with Core(Tables(tables.registers, actors), threads) as core:
        core.run(3)
        with pytest.raises(TaskError) as caught:
            core.run(30)
        assert str(caught.value) == "task 'bad' failed at act 4 with code 5"
        for note in job.notes:
            note[1] = 0
        core.run(6)
    assert job.seen(6) == job.expected(6)


def test_single_worker_starts_no_thread():
    before = threading.enumerate()
    job = Job([0, 0], [(0, [1], 1)])
    with Core(job.tables()) as core:
        core.run(5)
        assert threading.enumerate() == before


def test_threads_that_wait_sleep(until_at_rest: Callable[[], None]):
    job = Job([0, 1], [(0, [1], 1)])
    with Core(job.tables(), 4) as core:
        core.run(10)
        until_at_rest()


def test_second_thread_can_interrupt_a_run_by_closing_the_core(
    start: Start, until: Until
):
    tables = Tables([], [Actor("t", calls=(Call(NOTHING, parts=4),))])
    core = Core(tables, 3)

    def close() -> None:
        until(lambda: core.acts_made() > 0)
        core.close()

    closer = start(close)
    with pytest.raises(Exception, match="the core was closed during a run"):
        core.run(1 << 50)
    closer.result(300)
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("penstock")]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("threads", "parts"), [(1, 1), (2, 1), (2, 4), (3, 9)])
def test_interrupt_stops_a_run_and_the_core_runs_again(threads: int, parts: int):
    code = f"""
import os, signal, threading, time
import numpy as np
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import copy_kernel
from penstock.runtime.program.tables import *
size = np.array([8])
data = np.zeros(2, np.int64)
words = size.ctypes.data, data.ctypes.data, data.ctypes.data + 8
call = Call(copy_kernel(), tuple(map(Fixed, words)), parts={parts})
core = Core(Tables([], [Actor("t", calls=(call,))]), {threads})
for delay in (0, 0.002, 0.05):
    def send():
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGINT)
    try:
        threading.Thread(target=send).start()
        core.run(1 << 60)
    except KeyboardInterrupt:
        print("interrupted")
    core.run(1000)
core.close()
print([thread.name for thread in threading.enumerate()])
"""
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (run.stderr, run.returncode) == ("", 0)
    assert run.stdout == "interrupted\n" * 3 + "['MainThread']\n"


def test_run_returns_after_the_last_act():
    # Many workers and threads, so that often several want the same lock.
    job = Job(range(16), [])
    with Core(job.tables()) as core:
        for run in range(1, 5001):
            core.run(1)
            assert {int(note[1]) for note in job.notes} == {run}
