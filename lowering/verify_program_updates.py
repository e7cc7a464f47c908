"""
Rules of `verify-program` about variables that actors copy to.

In one run of a job all that reads a variable reads what it held before. So whoever uses
its bytes, under whatever name, reaches the actor that copies to it without a token, and
that one reaches them over at most one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from xdsl.ir import Operation

from penstock.lowering.program_graph import ProgramGraph

Finding: TypeAlias = tuple[Operation, str]


def bad_updates(graph: ProgramGraph) -> Iterator[Finding]:
    """All that is wrong with copies to variables. No cycle is without a token."""
    if not any(graph.updates):
        return
    stored = graph.storages()
    seen: dict[str, int] = {}
    for index, names in enumerate(graph.updates):
        for name in sorted(names):
            actor = graph.actors[index]
            if (first := seen.setdefault(name, index)) != index:
                other, own = graph.actors[first].sym_name.data, actor.sym_name.data
                yield actor, f"@{other} and @{own} both write @{name}, a variable"
                continue
            yield from unordered_users(graph, index, name, stored[name].users)


def unordered_users(
    graph: ProgramGraph, update: int, name: str, users: Iterable[int]
) -> Iterator[Finding]:
    """The actors that may use a variable while it is written."""
    actor = graph.actors[update]
    for user in users:
        if user == update:
            continue
        used = f"@{graph.actors[user].sym_name.data} may use variable @{name}"
        if not graph.graph.reaches(user, update, 0):
            yield actor, f"{used} after @{actor.sym_name.data} has written it"
        elif not graph.graph.reaches(update, user, 1):
            yield actor, f"{used} again before @{actor.sym_name.data} has written it"
