"""
Rules of `verify-program` about variables that actors copy to.

In one run of a job all that reads a variable reads what it held before. So each user of
its bytes, under any name, reaches the actor that copies to it without a token, and that
one reaches them over at most one.

All variables have new values, or none: so each actor that can fail, and each that a
main job lets act, reaches every copy to a variable without a token; by way of a
`launch.commit` if it works on a device, which the host has to ask. An actor that does
both copies last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.dialects.launch import ActorOp, CallOp, CommitOp, CopyOp, names_of
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.graphs import bits_of
from penstock.lowering.algorithms.update_order import UpdateOrder
from penstock.lowering.verify.program_rules.graph import ProgramGraph


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
    yield from early_updates(graph, list(written))


def early_updates(graph: ProgramGraph, updates: Sequence[int]) -> Iterator[Finding]:
    """The actors that may write variables though others may still fail."""
    actors = graph.actors
    uncertain = [x for x, actor in enumerate(actors) if is_uncertain(graph, actor)]
    if not uncertain:
        return
    bit = {update: 1 << i for i, update in enumerate(updates)}
    size = len(actors)
    reached = graph.graph.after([bit.get(x, 0) for x in range(size)])
    commits = [reached[x] if commits_in(actors[x]) else 0 for x in range(size)]
    told = graph.graph.after(commits)
    for index in uncertain:
        actor, own = actors[index], bit.get(index, 0)
        name = actor.sym_name.data
        if own and not fails_first(graph, actor):
            yield actor, f"@{name} writes a variable before it may fail"
        others = (1 << len(updates)) - 1 & ~own
        for i in bits_of(others & ~reached[index]):
            update = actors[updates[i]]
            text = f"may write a variable before @{name} fails"
            yield update, f"@{update.sym_name.data} {text}"
        if not fails_remotely(actor):
            continue
        for i in bits_of(others & reached[index] & ~told[index]):
            update = actors[updates[i]]
            yield (
                update,
                f"@{update.sym_name.data} may write a variable before the host knows "
                f"whether @{name} fails, without a launch.commit between them",
            )


def is_uncertain(graph: ProgramGraph, actor: ActorOp) -> bool:
    """Whether an actor can fail, or waits for a section of its job to be granted."""
    return actor.can_fail is not None or any(
        graph.is_granted(name) for name in names_of(actor.reads)
    )


def fails_remotely(actor: ActorOp) -> bool:
    """Whether an actor fails on a device that the host has to ask."""
    return actor.can_fail is not None and actor.device.kind.data != "cpu"


def commits_in(actor: ActorOp) -> bool:
    """Whether an actor has a step after which nothing fails."""
    return any(isinstance(step, CommitOp) for step in actor.body.block.ops)


def fails_first(graph: ProgramGraph, actor: ActorOp) -> bool:
    """Whether an actor calls no kernel after it has written a variable."""
    has_written = False
    for step in actor.body.block.ops:
        if isinstance(step, CopyOp):
            target = step.target.root_reference.data
            has_written = has_written or graph.is_variable(target)
        elif has_written and isinstance(step, CallOp):
            return False
    return not fails_remotely(actor)


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
