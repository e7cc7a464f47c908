"""
Reachability between writers and users of variables in a marked graph: a hazard check.

`verify-plan` and `verify-program` use it to prove that each actor reads the old value
of a variable in an iteration (write after read), and the new one in the next (read
after write). An *act* is one firing of an actor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.lowering.algorithms.marked_graph import MarkedGraph, marks_of


@dataclass
class UpdateOrder:
    """
    The order of writers and users of variables: `users` maps each actor that writes
    variables to the actors that use them. The graph has no cycle without a token.
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
        """Whether `user` is done before `update` writes, in the n-th act of each."""
        return bool(self._same_act[user] >> self._update[update] & 1)

    def comes_again_after(self, user: int, update: int) -> bool:
        """Whether `update` has written in act n before `user` makes act n + 1."""
        return bool(self._next_act[update] >> self._user[user] & 1)
