"""
Rules on registers that share bytes, in plans and in programs.

Of two registers the one is written first. All that use the shared bytes as its own come
before the other one is written, or are the act that writes it, up to a step before the
one that does. All that use these as the other's come before the first one is written
again. With several slots that is as many acts later, if each slot shares bytes with the
same one alone. Else slots that share bytes may be in use in no act together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.lowering.algorithms.byte_spans import slots_match
from penstock.lowering.algorithms.marked_graph import (
    Storage,
    clashes,
    marks_of,
    slots_meet,
)
from penstock.lowering.verify.shared_rules.uses import Uses


class Misuse(NamedTuple):
    """A use of bytes after they are another register's, or are new ones."""

    user: int
    used: str
    """The register that it means."""
    writer: int
    over: str
    """The register that has been written over that."""
    is_again: bool
    """Whether the writer has acted before, in an earlier iteration."""

    def text(self, actors: Sequence[str], registers: Mapping[str, str]) -> str:
        """The finding about it, in the names of acts and registers."""
        again = " again" if self.is_again else ""
        return (
            f"{actors[self.user]} may use {registers[self.used]} after "
            f"{actors[self.writer]} has begun to write {registers[self.over]}{again}"
        )


def clashing(uses: Uses, stored: Mapping[str, Storage]) -> list[tuple[str, str]]:
    """
    The pairs of registers that share bytes, and of whose users some may act together.
    """
    names, storages = list(stored), list(stored.values())
    return [(names[i], names[j]) for i, j in clashes(uses.acts.graph, storages)]


@dataclass
class Reuse:
    """Whether registers of pairs have their bytes in turn."""

    uses: Uses
    pairs: Sequence[tuple[str, str]]

    def __post_init__(self) -> None:
        uses, graph = self.uses, self.uses.acts.graph
        self._position = {act: i for i, act in enumerate(graph.order)}
        names = dict.fromkeys(name for pair in self.pairs for name in pair)
        ends = ((uses.writer[name], self._next_use(name, 1)[0]) for name in names)
        writers = list(dict.fromkeys(act for pair in ends for act in pair))
        marks = marks_of(graph, writers)
        self._bit = {writer: i for i, writer in enumerate(writers)}
        self._same_act = graph.after(marks)
        self._next_act = graph.after_up_to_next_act(marks)

    def misuse(self, one: str, other: str) -> Misuse | None:
        """A use of the bytes of the one when they are the other's, if there is any."""
        uses, spans = self.uses, self.uses.acts.spans
        a, b = sorted((one, other), key=self._written_at)
        before, after = uses.users(a, of=b), uses.users(b, of=a)
        is_exact = slots_match(spans[a], spans[b])
        if not is_exact and not self._slots_meet((a, before), (b, after)):
            return None
        later = uses.writer[b]
        for user in before:
            is_last = user == later and uses.is_done_before(user, a, b)
            if not is_last and not self._is_before(user, later, 0):
                return Misuse(user, a, later, b, False)
        writer, tokens = self._next_use(a, spans[a].slots if is_exact else 1)
        for user in after:
            if user != writer and not self._is_before(user, writer, tokens):
                return Misuse(user, b, writer, a, True)
        return None

    def misuse_of_itself(self, name: str) -> Misuse | None:
        """
        A use of a register's bytes, under another name, when they are new ones, if
        there is any.
        """
        writer, tokens = self._next_use(name, self.uses.acts.spans[name].slots)
        for user in self.uses.users(name, of=name):
            # One that reads it by its name gives it back.
            is_reader = user == writer or name in self.uses.acts.reads[user]
            if not is_reader and not self._is_before(user, writer, tokens):
                return Misuse(user, name, writer, name, True)
        return None

    def _next_use(self, name: str, slots: int) -> tuple[int, int]:
        """The act that writes a slot of a register anew, and how many later."""
        known = self.uses.acts.next_use.get(name)
        return (self.uses.writer[name], slots) if known is None else known

    def _slots_meet(self, *used: tuple[str, Sequence[int]]) -> bool:
        stored = self.uses.storages
        one, other = (stored[name]._replace(users=users) for name, users in used)
        return slots_meet(self.uses.acts.graph, one, other)

    def _written_at(self, name: str) -> tuple[int, int]:
        writer = self.uses.writer[name]
        return self._position[writer], self.uses.first_write[writer][name]

    def _is_before(self, user: int, writer: int, tokens: int) -> bool:
        """Whether an act comes before that of the writer so many acts later."""
        found = self._same_act if tokens == 0 else self._next_act
        if found[user] >> self._bit[writer] & 1:
            return True
        return tokens > 1 and self.uses.acts.graph.reaches(user, writer, tokens)
