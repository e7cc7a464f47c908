"""
All acts of an iteration of a program, which as a marked graph each act once an
iteration.

Where a piece of a register lasts for several acts, an actor makes several acts in an
iteration, and a register has several pieces: each act and each piece counts as one of
its own. A register of s slots with m pieces in an iteration has each of these in slot
number "piece mod s" in every iteration, if s divides m; else so many iterations count
as one that it does. A piece that an actor writes in several acts is written by the
first of them, and over that by each other one, until others see the last.

An actor with a cycle uses in each act what that act of the cycle lists, one piece of
each. Actors of kinds that data decides on order nothing: what they use lies on bytes of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import gcd, lcm

from xdsl.ir import Operation

from penstock.dialects.launch import (
    ActorOp,
    ControlOp,
    ProgramOp,
    RegisterOp,
    frames_of,
    names_of,
    repetitions_of,
)
from penstock.dialects.launch.actor_kinds import STATIC
from penstock.dialects.launch.actors import ON, WHEN, is_step_on
from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.dialects.utils.repetitions import MOST_ACTS
from penstock.lowering.algorithms.byte_spans import Access, Span
from penstock.lowering.algorithms.marked_graph import Edge
from penstock.lowering.verify.shared_rules.unrolled import Unrolled, edges_between


class Iteration:
    """
    The acts of some actors by number, given what their steps use and where registers
    lie. Without rates these are the actors, and what they use goes by its name.
    """

    def __init__(
        self,
        program: ProgramOp,
        actors: Sequence[ActorOp],
        steps: Sequence[Sequence[Access]],
        spans: dict[str, Span],
    ) -> None:
        self._program, self._table = program, program.symbol_table()
        self._all = actors
        repetitions = repetitions_of(program)
        self._acts = [repetitions[actor.sym_name.data] for actor in actors]
        self.count = 1
        """The number of iterations that count as one."""
        self._writer = {x: i for i, a in enumerate(actors) for x in names_of(a.writes)}
        self._repeat()
        self.pieces: dict[str, str] = {}
        """The register of each piece that goes by a name of its own."""
        self.actors: list[ActorOp] = []
        self.reads: list[list[str]] = []
        self.writes: list[list[str]] = []
        self.steps: list[list[Access]] = []
        self.found: list[dict[str, list[str]]] = []
        """For each act whose bytes lie in what it writes, before it does any step."""
        for index, actor in enumerate(actors):
            for act in range(self._acts[index]):
                self._add_act(actor, act, steps[index])
        self.spans = self._piece_spans(spans)
        self._unrolled = Unrolled(self._acts)
        self.edges = self._edges()

    def _repeat(self) -> None:
        """
        Count so many iterations as one that each piece is always in the same slot.
        """
        counts = [(self._count(name), self._slots(name)) for name in self._writer]
        if all(count == 1 or count % slots == 0 for count, slots in counts):
            return
        self.count = lcm(*(slots // gcd(slots, count) for count, slots in counts))
        most = max(self._acts) * self.count
        if most > MOST_ACTS:
            fail_if_any([(self._program, too_long(most))])
        self._acts = [self.count * acts for acts in self._acts]

    def acts_in(self, number: int) -> list[int]:
        """The acts in one of the iterations that count as one."""
        firsts = zip(self._unrolled.first, self._acts, strict=True)
        lengths = [(first, acts // self.count) for first, acts in firsts]
        return [first + number * x + i for first, x in lengths for i in range(x)]

    def _slots(self, name: str) -> int:
        op = self._table[name]
        assert isinstance(op, RegisterOp | ControlOp), "checked by the verifier"
        # Nothing lies in the slots of a control.
        return op.slots.value.data if isinstance(op, RegisterOp) else 1

    def _count(self, name: str) -> int:
        """The pieces of a register in an iteration."""
        writer = self._writer[name]
        return int(self._acts[writer] / self._all[writer].acts_for(name))

    @staticmethod
    def _number(actor: ActorOp, name: str, act: int) -> int:
        """The number of the piece of a register that an act uses."""
        if not actor.is_cyclic:
            return act // actor.rates.get(name, 1)
        uses = actor.acts_with(name)
        cycles, place = divmod(act, actor.acts_of_cycle)
        return cycles * len(uses) + uses.index(place)

    def _acts_for(self, index: int, name: str, pieces: int) -> Callable[[int], range]:
        """The acts of an actor for a piece of a register, by its number."""
        actor, first = self._all[index], self._unrolled.first[index]
        if not actor.is_cyclic:
            return lambda piece: self._unrolled.acts_for(index, piece, pieces)
        uses = actor.acts_with(name)

        def one_act(piece: int) -> range:
            cycle, place = divmod(piece, len(uses))
            act = first + cycle * actor.acts_of_cycle + uses[place]
            return range(act, act + 1)

        return one_act

    def _piece(self, name: str, number: int) -> str:
        """The name of a piece of a register."""
        if (count := self._count(name)) == 1:
            return name
        called = f"{name}[{number % count}]"
        self.pieces[called] = name
        return called

    def _add_act(self, actor: ActorOp, act: int, steps: Sequence[Access]) -> None:
        rates = actor.rates
        called: dict[str, str] = {}
        reads: list[str] = []
        writes: list[str] = []
        found: dict[str, list[str]] = {}
        used = used_in(actor, act)
        for name in self._own_reads(actor):
            if name in used:
                called[name] = self._piece(name, self._number(actor, name, act))
                reads.append(called[name])
        for name in names_of(actor.writes):
            if name not in used:
                continue
            rounds = rates.get(name, 1)
            whole = self._piece(name, self._number(actor, name, act))
            called[name] = self._unfinished(name, whole, act % rounds, rounds)
            writes.append(called[name])
            if act % rounds:
                before = self._unfinished(name, whole, act % rounds - 1, rounds)
                reads.append(before)
                found[called[name]] = [before]
            else:
                below = self._below(actor, name)
                found[called[name]] = [called.get(x, x) for x in below]
        self.actors.append(actor)
        self.found.append(found)
        self.reads.append(reads)
        self.writes.append(writes)
        self.steps.append(
            [
                renamed(access, called)
                for op, access in zip(actor.body.block.ops, steps, strict=False)
                if is_step_on(op, used) and is_done(op, act % actor.round)
            ]
        )
        if actor.kind_name in ("esac", "lock", "send_ids"):
            self.steps[-1].append(Access([*reads, *writes], writes))

    def _below(self, actor: ActorOp, name: str) -> Iterator[str]:
        """
        The registers that a register written by an actor is a view of, or lies over.
        """
        for view in actor.view_list:
            source, result = view.names
            if result == name:
                yield source
        op = self._table[name]
        if isinstance(op, RegisterOp) and op.over is not None:
            below = op.over.root_reference.data
            if below in names_of(actor.reads):
                yield below

    def _own_reads(self, actor: ActorOp) -> list[str]:
        """The registers that an actor reads, but for signals from and to a main job."""
        return [name for name in names_of(actor.reads) if name in self._writer]

    def _unfinished(self, name: str, whole: str, act: int, rounds: int) -> str:
        """The name of a piece after an act of the round in which it is written."""
        if act == rounds - 1:
            return whole
        called = f"{whole}/{act}"
        self.pieces[called] = name
        return called

    def _piece_spans(self, spans: dict[str, Span]) -> dict[str, Span]:
        found: dict[str, Span] = {}
        for name, span in spans.items():
            if name not in self._writer:
                found[name] = span
                continue
            for number in range(self._count(name)):
                found[self._piece(name, number)] = self._span(name, number, spans)
        for called, name in self.pieces.items():
            if called not in found and name in spans:
                # The name of what is unfinished ends in the number of an act.
                found[called] = found[called.rpartition("/")[0]]
        return found

    def _span(self, name: str, number: int, spans: dict[str, Span]) -> Span:
        """Where a piece of a register lies in each iteration."""
        op, span = self._table[name], spans[name]
        assert isinstance(op, RegisterOp), "only registers have bytes"
        if op.over is None:
            if self._count(name) == 1:
                return span
            slot = number % span.slots
            return Span(span.start + slot * span.stride, span.size, span.size, 1)
        below = op.over.root_reference.data
        whole = self._table[below]
        assert isinstance(whole, RegisterOp), "checked by the verifier"
        frames = frames_of(op, whole, 1)
        under = self._span(below, number // frames.parts, spans)
        start = under.start + number % frames.parts * frames.step
        return Span(start, span.size, under.stride, under.slots)

    def _edges(self) -> list[Edge]:
        edges = dict.fromkeys(self._unrolled.own_edges())
        for reader, actor in enumerate(self._all):
            for name in self._own_reads(actor):
                op, writer = self._table[name], self._writer[name]
                if {self._all[i].kind_name for i in (reader, writer)} <= {*STATIC}:
                    assert isinstance(op, RegisterOp | ControlOp), "as verified"
                    full = op.initial_slots if isinstance(op, ControlOp) else 0
                    free = op.slots.value.data - full
                    count = self._count(name)
                    made = self._acts_for(writer, name, count)
                    used = self._acts_for(reader, name, count)
                    found = edges_between(made, used, count, full, free)
                    edges.update(dict.fromkeys(found))
        return list(edges)


def used_in(actor: ActorOp, act: int) -> set[str]:
    """The registers that an act of an actor uses; all, unless a cycle says which."""
    names = [*names_of(actor.reads), *names_of(actor.writes)]
    if not actor.is_cyclic:
        return {*names}
    return {names[x] for x in actor.number_lists[act % actor.acts_of_cycle]}


def too_long(acts: int) -> str:
    """Why so many acts of an actor in the iterations that count as one are refused."""
    return (
        f"an actor acts {acts} times before each piece is in the same slot again, "
        f"which may be {MOST_ACTS} times at most"
    )


def renamed(access: Access, called: dict[str, str]) -> Access:
    """The accesses of a step, by the names of pieces."""
    return Access(*([called.get(name, name) for name in names] for names in access))


def is_done(step: Operation, act: int) -> bool:
    """Whether a step may be done in an act of a round."""
    when = step.attributes.get(WHEN)
    if when is None or ON in step.attributes:
        return True
    return (act == 0) == (getattr(when, "data", "") == "first")
