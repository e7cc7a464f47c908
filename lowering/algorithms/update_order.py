"""
The check that actors read a variable before it is written, and again only after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.lowering.algorithms.marked_graph import MarkedGraph, marks_of


@dataclass
class UpdateOrder:
    """
    The order of the actors of a marked graph that write variables, and of those that
    use these; `users` has the latter for each of the former. No cycle is without a
    token.
    """

    graph: MarkedGraph
    users: Mapping[int, Sequence[int]]
    _same_act: list[int] = field(init=False)
    _next_act: list[int] = field(init=False)

    def __post_init__(self) -> None:
        graph, updates = self.graph, list(self.users)
        using = list(dict.fromkeys(user for x in self.users.values() for user in x))
        self._update = {actor: i for i, actor in enumerate(updates)}
        self._user = {actor: i for i, actor in enumerate(using)}
        self._same_act = graph.after(marks_of(graph, updates))
        self._next_act = graph.after_up_to_next_act(marks_of(graph, using))

    def comes_before(self, user: int, update: int) -> bool:
        """Whether a use is over when the variable is written in the same act."""
        return bool(self._same_act[user] >> self._update[update] & 1)

    def comes_again_after(self, user: int, update: int) -> bool:
        """Whether the variable has been written when it is used in the next act."""
        return bool(self._next_act[update] >> self._user[user] & 1)
