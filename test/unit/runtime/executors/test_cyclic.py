"""Actors with cycles, against the streams of pieces that they stand for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pytest
from draws import draws
from loaded_programs import load_program
from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.launch import ProgramOp, repetitions_of
from penstock.lowering.verify.program import findings_in
from penstock.runtime.errors import DeadlockError, PenstockError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.program.actor_kinds import check_kind
from penstock.runtime.program.actors import Actor, Call, Register, Slot
from penstock.tools.driver.compiler import installed_compiler

Cycle: TypeAlias = "Sequence[Sequence[int]]"
Streams: TypeAlias = "dict[str, list[int]]"

ENGINES = [("sequential", 1), ("sim", 1), ("actors", 1), ("actors", 2)]


class Network:
    """
    A random network of actors with cycles between feeds and fetches: each deals the
    pieces of one register to several, or takes pieces of several by turns. An oracle
    follows streams, whose pieces do not depend on who acts first.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.lines: list[str] = []
        self.registers: list[str] = []
        self.fed: Streams = {}
        self.streams: Streams = {}
        """The pieces of each register in an iteration."""
        for index in range(self._random.randint(1, 2)):
            name = self._register(f"x{index}")
            count = self._random.choice([4, 6, 12])
            self.streams[name] = [100 * index + i for i in range(count)]
            self.fed[name] = self.streams[name]
            self._actor(f"feed_{name}", [], [name], f'launch.feed "{name}" to @{name}')
        free = list(self.fed)
        for index in range(self._random.randint(2, 5)):
            free = (
                self._deal(index, free) if len(free) < 2 else self._either(index, free)
            )
        self.fetched = free
        for name in free:
            self._actor(
                f"fetch_{name}", [name], [], f'launch.fetch "{name}" from @{name}'
            )

    def _either(self, index: int, free: list[str]) -> list[str]:
        return self._random.choice([self._deal, self._join])(index, free)

    def _register(self, name: str) -> str:
        slots, place = self._random.choice([1, 1, 1, 2]), 256 * len(self.registers)
        self.registers.append(
            f"launch.register @{name} in @c at {place} slots {slots} : memref<i64>"
        )
        return name

    def _actor(
        self,
        name: str,
        reads: Sequence[str],
        writes: Sequence[str],
        steps: str,
        cycle: Cycle = (),
    ) -> None:
        lists = ", ".join(f"array<i64: {', '.join(map(str, act))}>" for act in cycle)
        kind = f'kind "cyclic" lists [{lists}]' if cycle else ""
        named = (", ".join(f"@{x}" for x in names) for names in (reads, writes))
        self.lines.append(
            f"launch.actor @{name} {kind} on <0, cpu:0> stream {len(self.lines)} "
            "reads [{}] writes [{}] {{ {} }}".format(*named, steps)
        )

    def _acts(self, counts: Sequence[int]) -> int:
        """A length of a cycle that fits the pieces of the registers it is about."""
        return self._random.choice([n for n in (1, 2, 3, 4, 6) if not counts[0] % n])

    def _deal(self, index: int, free: list[str]) -> list[str]:
        source = free[self._random.randrange(len(free))]
        pieces = self.streams[source]
        length = self._acts([len(pieces)])
        names = [
            self._register(f"d{index}_{i}") for i in range(self._random.randint(2, 3))
        ]
        uses = {x: self._subset(length) for x in names}
        cycle = [
            [0, *(1 + i for i, x in enumerate(names) if act in uses[x])]
            for act in range(length)
        ]
        for name in names:
            self.streams[name] = [
                piece for i, piece in enumerate(pieces) if i % length in uses[name]
            ]
        steps = " ".join(f"launch.copy @{source} to @{x} {{on = @{x}}}" for x in names)
        self._actor(f"deal{index}", [source], names, steps, cycle)
        return [*(x for x in free if x != source), *names]

    def _join(self, index: int, free: list[str]) -> list[str]:
        # Two that come from one actor often have to wait for each other.
        sources = free[-2:] if self._random.random() < 0.7 else free[:2]
        counts = [len(self.streams[x]) for x in sources]
        cycles = self._random.choice(
            [n for n in (1, 2, 3) if all(not c % n for c in counts)]
        )
        order = [i for i, c in enumerate(counts) for _ in range(c // cycles)]
        self._random.shuffle(order)
        name = self._register(f"j{index}")
        left = [iter(self.streams[x]) for x in sources]
        self.streams[name] = [next(left[i]) for _ in range(cycles) for i in order]
        steps = " ".join(f"launch.copy @{x} to @{name} {{on = @{x}}}" for x in sources)
        self._actor(f"join{index}", sources, [name], steps, [[i, 2] for i in order])
        return [*(x for x in free if x not in sources), name]

    def _subset(self, count: int) -> set[int]:
        return set(self._random.sample(range(count), self._random.randint(1, count)))

    @property
    def text(self) -> str:
        body = "\n".join([*self.registers, *self.lines])
        size = 256 * len(self.registers)
        return (
            f"launch.program @p rank 0 {{\nlaunch.chunk @c on <0, host> size {size}\n"
            f"{body}\n}}"
        )


def parsed(text: str) -> ProgramOp:
    module = installed_compiler()[0].parse(text.encode(), "cycles.mlir")
    assert isinstance(module, ModuleOp)
    module.verify()
    return next(op for op in module.walk() if isinstance(op, ProgramOp))


FIRST = 20261127
"""The first of the seeds."""


@pytest.mark.parametrize("seed", range(FIRST, FIRST + draws(10)))
def test_pieces_come_in_the_order_of_cycles(seed: int) -> None:
    """
    Each engine gives the pieces of the streams, or finds a deadlock if and only if the
    verifier of programs says so.
    """
    network = Network(seed)
    program = parsed(network.text)
    complaints = [text for _, text in findings_in(program)]
    # A turn is the fewest acts of all, which may be a part of what the oracle follows.
    turns = repetitions_of(program)
    inputs = {x: pieces[: turns[f"feed_{x}"]] for x, pieces in network.fed.items()}
    fed = {x: np.array(p if len(p) > 1 else p[0], np.int64) for x, p in inputs.items()}
    for engine, threads in ENGINES:
        runner = Executor(load_program(program, {}, threads=threads), engine)
        if complaints:
            assert "a cycle of actors has no token" in complaints[0]
            with pytest.raises(DeadlockError):
                runner.run(fed)
            continue
        for _ in range(2):
            found = runner.run(fed)
            for name in network.fetched:
                expected = network.streams[name][: turns[f"fetch_{name}"]]
                assert np.ravel(found[name]).tolist() == expected


def test_networks_deadlock_and_do_not() -> None:
    """Both are among those that are tried."""
    networks = map(Network, range(FIRST, FIRST + 32))
    stuck = [any(findings_in(parsed(each.text))) for each in networks]
    assert 3 < sum(stuck) < len(stuck) - 10, stuck


BAD: list[tuple[Cycle, str]] = [
    ([], "has an act or a register that is in no list"),
    ([[0], []], "has an act or a register that is in no list"),
    ([[0], [0]], "has an act or a register that is in no list"),
    ([[0, 2]], "lists a register that it has not, or twice"),
    ([[0, 0], [1]], "lists a register that it has not, or twice"),
    ([[0, 1], [1]], "gives a call register 0, which is not used in an act in which"),
]


@pytest.mark.parametrize(("cycle", "message"), BAD)
def test_a_cycle_that_no_text_has_been_checked_for(cycle: Cycle, message: str) -> None:
    """A program may come from a saved plan, so its tables are checked on their own."""
    lists = tuple(map(tuple, cycle))
    call = Call(8, (Slot(0), Slot(1)))
    actor = Actor("a", 0, (0,), (1,), (call,), kind="cyclic", lists=lists)
    registers = [Register("x", 0, 1, address=64), Register("y", 0, 1, address=128)]
    with pytest.raises(PenstockError, match=message):
        check_kind(actor, registers)
