"""
Random plans: none hangs, none exceeds its credits, and all compute what
the reference executor does.

Graphs, slots, pieces at the start, workers and threads are random, and so is which of
the two loops runs them. Nothing is compiled for a plan: all actors have one kernel,
which keeps its own account of each register. It counts what a writer has begun and what
it has filled, and takes away what a reader has read, by atomic operations, and fails if
there is more in a register than it has slots, or nothing to read. It also waits now and
then, so that acts meet in many ways.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple, cast

import numpy as np
import pytest
from draws import draws
from numba import cfunc

from penstock.runtime.core.atomics import (
    arrays_at,
    fetch_add,
    load_word,
    store_word,
)
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import KERNEL
from penstock.runtime.core.os_calls import pause
from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.errors import (
    DeadlockError,
    MessageError,
    TaskError,
)
from penstock.runtime.executors.reference import SequentialRun
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
from penstock.runtime.testing.fault_injection import FaultyCore, MessageFault

PLANS = 500
LIMIT = 1_000_003
SIZE = 32
"""Words of the log of an actor."""


class Account(NamedTuple):
    """For each reader of each register: slots that are begun, and that are filled."""

    begun: Words
    filled: Words


account_at = arrays_at(Account)


@cfunc(KERNEL)
def _step(args: int, part: int, parts: int) -> int:
    """
    Write 1 + number + act + what is read to all results and to the log.

    The row: the note, then the slots that are read and that are written. The note:
    [number, act, table of the account, words of the log, reads, writes, edges...],
    where the edges are those that are read, then (edge, slots) of what is written.
    """
    note = load_word(args)
    number, act = load_word(note), load_word(note + 8)
    account = account_at(load_word(note + 16))
    log, reads, writes = note + 24, load_word(note + 24 + 256), load_word(note + 288)
    inputs, outputs = load_word(note + 296), load_word(note + 304)
    edges = note + 312
    for i in range(outputs):
        entry = edges + 8 * (inputs + 2 * i)
        if fetch_add(account.begun, load_word(entry), 1) >= load_word(entry + 8):
            return 2
    for i in range(inputs):
        if fetch_add(account.filled, load_word(edges + 8 * i), 0) < 1:
            return 3
    value = 1 + number + 7 * act
    for i in range(reads):
        value += (i + 1) * load_word(load_word(args + 8 + 8 * i))
    value %= 1_000_003
    if (number + act * 5) % 7 == 0:
        for _ in range(value & 63):
            pause()
    for i in range(reads, reads + writes):
        store_word(load_word(args + 8 + 8 * i), value)
    store_word(log + 8 * (act & 31), value)
    store_word(note + 8, act + 1)
    for i in range(inputs):
        edge = load_word(edges + 8 * i)
        fetch_add(account.filled, edge, -1)
        fetch_add(account.begun, edge, -1)
    for i in range(outputs):
        fetch_add(account.filled, load_word(edges + 8 * (inputs + 2 * i)), 1)
    return 0


STEP = cast(int, _step.address)
MESSAGES = ("?", "a register holds more than its slots", "there is nothing to read")


class Plan:
    """A random program on memory of its own."""

    def __init__(self, rng: random.Random):
        count = rng.randrange(1, 17)
        workers = rng.choice([1, 2, 3, 4, 8, 16])
        is_tight = rng.random() < 0.5
        self.reads: list[list[int]] = [[] for _ in range(count)]
        self.writes: list[list[int]] = [[] for _ in range(count)]
        self.registers: list[Register] = []
        self.buffers: list[Words] = []
        for _ in range(rng.randrange(2 * count + 1)):
            self._add_register(rng, count, 2 if is_tight else 4)
        self.starts = [
            np.array([rng.randrange(LIMIT) for _ in buffer], np.int64)
            for buffer in self.buffers
        ]
        edges = sum(map(len, self.reads))
        self.account = Account(
            np.zeros(edges + 1, np.int64), np.zeros(edges + 1, np.int64)
        )
        self._table = np.array(
            [word for x in self.account for word in (x.ctypes.data, x.size)], np.int64
        )
        self.notes = self._notes()
        actors = [self._actor(i, rng.randrange(workers)) for i in range(count)]
        self.tables = Tables(self.registers, actors)

    def _add_register(self, rng: random.Random, count: int, most: int) -> None:
        index, slots = len(self.registers), rng.randrange(1, most + 1)
        producer = rng.randrange(count)
        first = producer + 1 if rng.random() < 0.85 else 0
        others = range(first, count)
        wanted = rng.choice([0, 1, 1, 1, 2, 3])
        readers = rng.sample(others, min(wanted, len(others)))
        goes_back = any(reader <= producer for reader in readers)
        initial = rng.randrange(slots + 1) if rng.random() < 0.1 else 0
        if goes_back and rng.random() < 0.95:
            initial = rng.randrange(1, slots + 1)
        is_control = producer in readers or rng.random() < 0.2
        buffer = np.zeros(0 if is_control else slots, np.int64)
        self.buffers.append(buffer)
        place = (0, 0) if is_control else (buffer.ctypes.data, 8)
        self.registers.append(Register(f"r{index}", producer, slots, initial, *place))
        self.writes[producer].append(index)
        for reader in readers:
            self.reads[reader].append(index)

    def _edges(self) -> list[tuple[int, int]]:
        return [(r, a) for a, reads in enumerate(self.reads) for r in reads]

    def _notes(self) -> list[Words]:
        edges = self._edges()
        notes: list[Words] = []
        for actor, (reads, writes) in enumerate(
            zip(self.reads, self.writes, strict=True)
        ):
            inputs = [e for e, (_, reader) in enumerate(edges) if reader == actor]
            outputs = [
                (e, self.registers[register].slots)
                for e, (register, _) in enumerate(edges)
                if register in writes
            ]
            sizes = [self._count(reads), self._count(writes), len(inputs), len(outputs)]
            head = [actor, 0, self._table.ctypes.data, *[0] * SIZE]
            tail = [word for entry in outputs for word in entry]
            notes.append(np.array([*head, *sizes, *inputs, *tail], np.int64))
        return notes

    def _count(self, registers: list[int]) -> int:
        return sum(self.registers[r].address != 0 for r in registers)

    def _actor(self, index: int, worker: int) -> Actor:
        reads, writes = self.reads[index], self.writes[index]
        slots = [Slot(r) for r in (*reads, *writes) if self.registers[r].address]
        args = (Fixed(self.notes[index].ctypes.data), *slots)
        call = Call(STEP, args, MESSAGES)
        return Actor(f"a{index}", worker, tuple(reads), tuple(writes), (call,))

    def reset(self) -> None:
        """Set the memory to what it is at the start."""
        for buffer, start in zip(self.buffers, self.starts, strict=True):
            buffer[:] = start
        for note in self.notes:
            note[1] = 0
        for edge, (register, _) in enumerate(self._edges()):
            for words_ in self.account:
                words_[edge] = self.registers[register].initial

    def found(self) -> list[list[int]]:
        """The results of actors, and the contents of all registers."""
        logs = [note[1:2].tolist() + note[3 : 3 + SIZE].tolist() for note in self.notes]
        return [*logs, *(buffer.tolist() for buffer in self.buffers)]


def run_plan(seed: int) -> str:
    """Check one plan; how it ends."""
    rng = random.Random(seed)
    plan = Plan(rng)
    runs = [rng.randrange(1, 10) for _ in range(rng.randrange(1, 4))]
    stuck = find_deadlock(plan.tables) is not None
    plan.reset()
    dataflow = rng.random() < 0.25
    with Core(plan.tables, rng.randrange(1, 5), dataflow=dataflow) as core:
        if rng.random() < 0.01:
            core.watch(Watchdog(60))
        try:
            for acts in runs:
                core.run(acts)
        except DeadlockError:
            assert stuck, f"plan {seed} is stuck, but has no cycle without a piece"
            # The core is as new.
            plan.reset()
            with pytest.raises(DeadlockError):
                core.run(runs[0])
            return "stuck"
        assert not stuck, f"plan {seed} runs with a cycle without a piece"
        found, counters = plan.found(), core.memory.state.counters.copy()
    plan.reset()
    reference = SequentialRun(plan.tables, sum(runs))
    reference.run()
    assert found == plan.found(), f"plan {seed} does not compute what it should"
    assert (counters == reference.counters()).all(), f"plan {seed} miscounts"
    return "done"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(draws(1)))
def test_random_plans_end_within_their_credits_as_the_reference_does(chunk: int):
    endings = Counter(run_plan(chunk * PLANS + plan) for plan in range(PLANS))
    # Both kinds are among them.
    assert endings["done"] > 250
    assert endings["stuck"] > 25


# The account -------------------------------------------------------------------------


def end_of_plan_with_a_fault(seed: int) -> str:
    """The end of a random plan of which one message is told twice."""
    rng = random.Random(seed)
    plan = Plan(rng)
    if find_deadlock(plan.tables) is not None or not plan.tables.edges:
        return "-"
    register, reader = rng.choice(plan.tables.edges)
    name = rng.choice([None, f"a{reader}"])
    plan.reset()
    fault = MessageFault(f"r{register}", 1, "duplicate", name)
    with FaultyCore(plan.tables, [fault], rng.randrange(1, 4)) as core:
        try:
            core.run(12)
        except TaskError as error:
            return str(error.message)
        except (MessageError, DeadlockError) as error:
            return type(error).__name__
    return "unnoticed"


def test_account_notices_what_is_told_too_often():
    endings = Counter(end_of_plan_with_a_fault(seed) for seed in range(200))
    assert endings["a register holds more than its slots"] > 5
    assert endings["there is nothing to read"] > 5
    assert endings["unnoticed"] == 0
