"""
Rules of `verify-program` about variables that actors copy to.

In one run of a job all that reads a variable reads what it held before. So whoever uses
its bytes, under whatever name, reaches the actor that copies to it without a token, and
that one reaches them over at most one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from xdsl.ir import Operation

from penstock.lowering.program_graph import ProgramGraph
from penstock.lowering.update_order import UpdateOrder

Finding: TypeAlias = tuple[Operation, str]


def bad_updates(graph: ProgramGraph) -> Iterator[Finding]:
    """All that is wrong with copies to variables. No cycle is without a token."""
    if not any(graph.updates):
        return
    stored = graph.storages()
    written: dict[int, list[str]] = {}
    seen: dict[str, int] = {}
    for index, names in enumerate(graph.updates):
        for name in sorted(names):
            actor = graph.actors[index]
            if (first := seen.setdefault(name, index)) != index:
                other, own = graph.actors[first].sym_name.data, actor.sym_name.data
                yield actor, f"@{other} and @{own} both write @{name}, a variable"
            else:
                written.setdefault(index, []).append(name)
    users = {
        name: [u for u in stored[name].users if u != i] for name, i in seen.items()
    }
    order = UpdateOrder(
        graph.graph,
        {i: [u for name in names for u in users[name]] for i, names in written.items()},
    )
    for index, names in written.items():
        for name in names:
            yield from unordered_users(graph, order, index, name, users[name])


def unordered_users(
    graph: ProgramGraph,
    order: UpdateOrder,
    update: int,
    name: str,
    users: Sequence[int],
) -> Iterator[Finding]:
    """The actors that may use a variable while it is written."""
    actor = graph.actors[update]
    for user in users:
        used = f"@{graph.actors[user].sym_name.data} may use variable @{name}"
        if not order.comes_before(user, update):
            yield actor, f"{used} after @{actor.sym_name.data} has written it"
        elif not order.comes_again_after(user, update):
            yield actor, f"{used} again before @{actor.sym_name.data} has written it"
