"""Deadlocks and what breaks them, against all increases there are and the runtime."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

import pytest
from counted_work import LINEAR, growth_of
from draws import draws

from penstock.lowering.algorithms.deadlock import (
    Register,
    Wait,
    Waits,
    cycle_of_each,
    hopeless_cycles,
    smallest_increase,
)
from penstock.runtime.program.deadlock import find_deadlock
from penstock.runtime.program.tables import Actor, Tables
from penstock.runtime.program.tables import Register as TableRegister


def random_registers(rng: random.Random, tasks: int) -> list[Register]:
    """Registers between any tasks; those that hold data lead to later ones only."""
    registers: list[Register] = []
    for _ in range(rng.randrange(1, 2 * tasks)):
        writer = rng.randrange(tasks)
        slots = rng.randrange(1, 3)
        if rng.random() < 0.5 and writer < tasks - 1:
            readers, initial = range(writer + 1, tasks), 0
        else:
            readers, initial = range(tasks), slots
        some = rng.sample(readers, min(len(readers), rng.randrange(1, 3)))
        registers.append(Register(writer, some, slots, initial))
    return registers


def runs(tasks: int, registers: Sequence[Register], acts: int = 3) -> bool:
    """Whether each task can act some times: the rule of the executor, step by step."""
    full = {
        (i, reader): register.initial
        for i, register in enumerate(registers)
        for reader in dict.fromkeys(register.readers)
    }
    done = [0] * tasks
    moved = True
    while moved:
        moved = False
        for task in range(tasks):
            can = done[task] < acts
            for (i, reader), count in full.items():
                if reader == task:
                    can &= count > 0
                if registers[i].writer == task:
                    can &= count < registers[i].slots
            if can:
                moved = True
                done[task] += 1
                for i, reader in full:
                    if reader == task:
                        full[i, reader] -= 1
                    if registers[i].writer == task:
                        full[i, reader] += 1
    return min(done) == acts


def with_more(registers: Sequence[Register], chosen: Collection[int]) -> list[Register]:
    """The registers, those that are chosen with one more slot."""
    return [
        register._replace(slots=register.slots + (i in chosen))
        for i, register in enumerate(registers)
    ]


def increases(registers: Sequence[Register]) -> Iterator[tuple[int, ...]]:
    """All sets of registers, the small ones first, in order."""
    for size in range(len(registers) + 1):
        yield from combinations(range(len(registers)), size)


def solvable_case(seed: int) -> tuple[int, list[Register]]:
    """Registers that do not deadlock when all of them have one more slot."""
    rng = random.Random(seed)
    while True:
        tasks = rng.randrange(1, 7)
        registers = random_registers(rng, tasks)
        if runs(tasks, with_more(registers, range(len(registers)))):
            return tasks, registers


@pytest.mark.parametrize("seed", range(draws(66)))
def test_the_increase_is_the_smallest_there_is(seed: int):
    tasks, registers = solvable_case(seed)
    waits = Waits(tasks, registers)
    assert next(hopeless_cycles(waits), None) is None
    increase = smallest_increase(waits)
    wanted = next(
        chosen
        for chosen in increases(registers)
        if runs(tasks, with_more(registers, chosen))
    )
    assert tuple(increase.registers) == wanted
    assert increase.is_least


@pytest.mark.parametrize("seed", range(draws(66)))
def test_each_register_has_a_cycle_of_its_own(seed: int):
    tasks, registers = solvable_case(seed)
    waits = Waits(tasks, registers)
    increase = smallest_increase(waits)
    for register, cycle in cycle_of_each(waits, increase):
        assert_is_cycle(registers, cycle)
        broken = {wait.register for wait in cycle if waits.breaks(wait)}
        assert broken & set(increase.registers) == {register}


def assert_is_cycle(registers: Sequence[Register], cycle: Sequence[Wait]) -> None:
    for wait, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        assert wait.second == after.first
        register = registers[wait.register]
        forward = wait.first == register.writer and wait.second in register.readers
        back = wait.second == register.writer and wait.first in register.readers
        empty, full = register.initial == 0, register.initial == register.slots
        assert (forward and empty) or (back and full)


@pytest.mark.parametrize("seed", range(draws(33)))
def test_without_a_budget_the_increase_is_within_its_bound(seed: int):
    tasks, registers = solvable_case(seed)
    waits = Waits(tasks, registers)
    least = len(smallest_increase(waits).registers)
    greedy = smallest_increase(waits, budget=0)
    assert runs(tasks, with_more(registers, greedy.registers))
    for register in greedy.registers:
        others = [other for other in greedy.registers if other != register]
        assert not runs(tasks, with_more(registers, others))
    assert greedy.at_least <= least <= len(greedy.registers)
    full = sum(register.initial > 0 for register in registers)
    assert len(greedy.registers) <= full * greedy.at_least


def test_a_greedy_increase_may_not_know_that_it_is_the_smallest():
    # Any two of three turns wait for each other, so that two of them are needed.
    turns = [Register(3 + i, [i], 1, 1) for i in range(3)]
    orders = [Register(3 + i, [x for x in range(3) if x != i]) for i in range(3)]
    waits = Waits(6, [*turns, *orders])
    assert smallest_increase(waits) == ([0, 1], 2)
    assert smallest_increase(waits, budget=0) == ([0, 1], 1)


def test_of_equally_few_registers_the_smallest_are_taken():
    # Two tasks hold each other's turn.
    registers = [Register(0, [1], 1, 1), Register(1, [0], 1, 1)]
    assert smallest_increase(Waits(2, registers)).registers == [0]
    assert smallest_increase(Waits(2, registers), [9, 8]).registers == [1]


@pytest.mark.parametrize("seed", range(draws(66)))
def test_no_slots_break_what_is_hopeless(seed: int):
    rng = random.Random(seed)
    tasks = rng.randrange(1, 7)
    registers = [
        register._replace(initial=0) if rng.random() < 0.5 else register
        for register in random_registers(rng, tasks)
    ]
    waits = Waits(tasks, registers)
    cycles = list(hopeless_cycles(waits))
    for cycle in cycles:
        assert_is_cycle(registers, cycle)
        assert not any(waits.breaks(wait) for wait in cycle)
    everywhere = with_more(registers, range(len(registers)))
    assert bool(cycles) != runs(tasks, everywhere)
    # What is left has an answer.
    increase = smallest_increase(waits)
    assert waits.cycle(increase.registers) is None


def tables_of(tasks: int, registers: Sequence[Register]) -> Tables:
    """The same as a program of the executor."""
    entries = [
        TableRegister(f"r{i}", register.writer, register.slots, register.initial)
        for i, register in enumerate(registers)
    ]
    actors: list[Actor] = []
    for task in range(tasks):
        reads = [i for i, r in enumerate(registers) if task in r.readers]
        writes = [i for i, r in enumerate(registers) if r.writer == task]
        actors.append(Actor(f"a{task}", 0, tuple(reads), tuple(writes)))
    return Tables(entries, actors)


@pytest.mark.parametrize("seed", range(draws(66)))
def test_the_runtime_finds_the_same(seed: int):
    rng = random.Random(seed)
    tasks = rng.randrange(1, 8)
    registers = random_registers(rng, tasks)
    has_cycle = Waits(tasks, registers).cycle() is not None
    assert has_cycle == (find_deadlock(tables_of(tasks, registers)) is not None)
    assert has_cycle != runs(tasks, registers)


def test_both_kinds_are_among_the_cases():
    found = [Waits(*solvable_case(seed)).cycle() is None for seed in range(200)]
    assert 40 < sum(found) < 160


def searched_chain(count: int) -> None:
    """Search chains of so many tasks, with and without a deadlock."""
    registers = [Register(i, [i + 1]) for i in range(count - 1)]
    registers += [Register(i, [i + 1], 1, 0) for i in range(count - 1)]
    # The last one starts the first; then the first has to wait for the last, or itself.
    fine = Waits(count, [*registers, Register(count - 1, [0], 2, 1)])
    assert smallest_increase(fine).registers == []
    wrong = Waits(count, [*registers, Register(0, [count - 1], 1, 1)])
    assert smallest_increase(wrong).registers == [2 * count - 2]
    stuck = Waits(count, [*registers, Register(0, [0], 1, 1)])
    increase = smallest_increase(stuck)
    assert increase.registers == [2 * count - 2]
    assert len(cycle_of_each(stuck, increase)) == 1


def test_a_long_chain_of_tasks_takes_linear_time():
    assert growth_of(lambda size: lambda: searched_chain(size), 200) < LINEAR
