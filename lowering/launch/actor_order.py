"""
The actors of a program in an order in which they can act one after the other, and which
of them can be taken together in it.

An actor comes before another one if the latter can act only after it has: a reader of a
register that is empty at the start after its writer, and the writer of a control that
is full at the start after its readers.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.dialects.launch import ActorOp, ControlOp, ProgramOp, names_of


class ActorOrder:
    """The order of the actors of a program, known by their numbers."""

    def __init__(self, program: ProgramOp):
        self.actors: Sequence[ActorOp] = program.actors
        self.before: list[list[int]] = [[] for _ in self.actors]
        """The actors right before each actor."""
        self.follows_list = True
        """Whether no actor comes before one that is listed before it."""
        table = program.symbol_table()
        writer = {
            name: number
            for number, actor in enumerate(self.actors)
            for name in names_of(actor.writes)
        }
        for number, actor in enumerate(self.actors):
            for name in names_of(actor.reads):
                other, control = writer[name], table[name]
                if not isinstance(control, ControlOp) or not control.initial_slots:
                    self._note(other, number)
                elif control.initial_slots == control.slots.value.data:
                    self._note(number, other)

    def _note(self, first: int, then: int) -> None:
        if first != then:
            self.before[then].append(first)
            self.follows_list = self.follows_list and first < then


class Run:
    """
    Actors that are taken together, in a walk through the list: what comes up between
    them stays before all of them, or goes behind if it comes after one of them.
    """

    def __init__(self) -> None:
        self.members: list[int] = []
        self.behind: list[int] = []
        self._members: set[int] = set()
        self._behind: set[int] = set()

    def add(self, number: int) -> None:
        """Take one more actor."""
        self.members.append(number)
        self._members.add(number)

    def defer(self, number: int) -> None:
        """Note an actor that goes behind."""
        self.behind.append(number)
        self._behind.add(number)

    def is_cut_off(self, before: Sequence[int]) -> bool:
        """Whether what comes right after these cannot be a member any more."""
        return not self._behind.isdisjoint(before)

    def is_followed(self, before: Sequence[int]) -> bool:
        """Whether what comes right after these goes behind."""
        return self.is_cut_off(before) or not self._members.isdisjoint(before)
