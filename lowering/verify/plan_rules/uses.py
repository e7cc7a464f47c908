"""
The bytes that tasks of a plan use, for the rules about registers that share them.

A task is one step, which names its operands and results, writes the results, and may
write each over what it reads of the same bytes: `bad_aliases` says whether its op can.
A view names its results, and writes nothing.

With rates each act of a launch may count as one, and each piece of a register. A piece
is written by the first of the acts that make it; those after it use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from penstock.dialects.regst import DataType, RegisterOp
from penstock.lowering.algorithms.byte_spans import Access, Span
from penstock.lowering.algorithms.marked_graph import MarkedGraph, Storage
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.lowering.verify.plan_rules.rates import ActGraph
from penstock.lowering.verify.shared_rules.uses import Acts, Uses


class Act(NamedTuple):
    """An act of a task, or all of a launch, with the names of the pieces it uses."""

    reads: list[str]
    writes: list[str]
    step: Access
    below: dict[str, list[str]]


@dataclass
class Pieces:
    """
    The registers of a plan that have bytes, piece by piece, if acts are looked at one
    by one. Else all pieces in a launch count as one, and all acts of a task.
    """

    plan: PlanGraph
    acts: ActGraph | None = None
    registers: dict[str, RegisterOp] = field(default_factory=dict[str, RegisterOp])
    """The register of each piece, by the name of that."""
    names: dict[RegisterOp, list[str]] = field(default_factory=dict)
    """The names of the pieces of each register."""

    def __post_init__(self) -> None:
        for register in self.plan.facts:
            if isinstance(register.register.type, DataType):
                name, count = register.register_name.data, self._count(register)
                names = [name] if count == 1 else [f"{name}[{i}]" for i in range(count)]
                self.names[register] = names
                self.registers.update(dict.fromkeys(names, register))

    def _count(self, register: RegisterOp) -> int:
        is_written = self.acts is not None and register in self.plan.writer
        return self.acts.count(register) if self.acts and is_written else 1

    @property
    def graph(self) -> MarkedGraph:
        """The marked graph of the acts."""
        return self.plan.graph if self.acts is None else self.acts.graph

    @property
    def repetitions(self) -> Sequence[int]:
        """The number of acts of each task that are looked at."""
        return (
            [1] * len(self.plan.tasks) if self.acts is None else self.acts.repetitions
        )

    @cached_property
    def stored(self) -> dict[RegisterOp, Storage]:
        """
        The bytes that each register with bytes of its own lies on, and the tasks that
        use these, where all pieces count as one.
        """
        found = self.whole.storages
        return {self.registers[name]: storage for name, storage in found.items()}

    @cached_property
    def whole(self) -> Uses:
        """
        The bytes that acts use. With rates that is all slots of a register and what is
        between them, as which slot an act uses is not its number modulo slots.
        """
        if not self.plan.rates.is_rated:
            return self.exact
        spans: dict[str, Span] = {}
        for name, register in self.registers.items():
            size = self.plan.facts[register].size
            spans[name] = Span(self.plan.start(register), size, size, 1)
        return Uses(self.exact.acts._replace(spans=spans, next_use={}))

    @cached_property
    def exact(self) -> Uses:
        """The same, if a piece has a slot with the same number in all registers."""
        acts = list(self._acts())
        lasting = [*self.plan.variables, *(r for r in self.names if r.header)]
        return Uses(
            Acts(
                self.graph,
                (self.graph if self.acts else self.plan.launch_graph).order,
                [act.reads for act in acts],
                [act.writes for act in acts],
                [[act.step] for act in acts],
                [act.below for act in acts],
                {name: self._span(r) for name, r in self.registers.items()},
                {name for register in lasting for name in self.names.get(register, ())},
                next_use=dict(self._next_uses()),
            )
        )

    def _acts(self) -> Iterator[Act]:
        for task, repetitions in enumerate(self.repetitions):
            ins, outs = self.plan.access[task].ins, self.plan.access[task].outs
            for act in range(repetitions):
                called: dict[RegisterOp, str] = {}
                begun: list[str] = []
                for register in (*ins, *outs):
                    names = self.names[register]
                    piece, later = divmod(act * len(names), repetitions)
                    called[register] = names[piece]
                    if register in outs and not later:
                        begun.append(names[piece])
                reads = [called[register] for register in ins]
                made = [called[register] for register in outs]
                step = Access([*reads, *made], begun, unchanged=reads)
                if self.plan.is_view[task]:
                    step = Access(made, [])
                below = {
                    called[r]: [called[s] for s in self.plan.sources[r]] for r in outs
                }
                yield Act(reads, begun, step, below)

    def _span(self, register: RegisterOp) -> Span:
        facts, start = self.plan.facts[register], self.plan.start(register)
        return Span(start, facts.bytes, facts.stride, facts.slots // facts.frames)

    def _next_uses(self) -> Iterator[tuple[str, tuple[int, int]]]:
        if self.acts is None:
            return
        for register, writer in self.plan.writer.items():
            names = self.names.get(register, ())
            for piece, name in enumerate(names):
                following = piece + self.plan.facts[register].slots
                launches, other = divmod(following, len(names))
                act = self.acts.acts_for(writer, other, len(names))[0]
                yield name, (act, launches)
