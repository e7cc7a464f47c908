"""
The actors of a program that write variables, for the rules of `verify-program` about
these.

An actor that can fail and copies to a variable does both copies last: it calls no
kernel after one. One whose kernels write variables, which it says by `updates`, cannot
fail, and uses none of their bytes otherwise once it writes them. In a loop that is for
the rules about what iterations read and write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    CommitOp,
    CopyOp,
    names_of,
    roots_within,
    steps_within,
)
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.byte_spans import shared_by
from penstock.lowering.algorithms.update_order import UpdateOrder
from penstock.lowering.verify.program_rules.graph import ProgramGraph
from penstock.lowering.verify.program_rules.states import is_state
from penstock.lowering.verify.shared_rules import updates
from penstock.lowering.verify.shared_rules.updates import Actor, Updates, Write


def bad_updates(graph: ProgramGraph) -> Iterator[Finding]:
    """All that is wrong with copies to variables. No cycle is without a token."""
    yield from idle_updates(graph)
    yield from shared_updates(graph)
    if not any(graph.updates):
        return
    stored = graph.uses.storages
    writes = [
        Write(i, name, f"@{name}", [x for x in stored[name].users if x != i])
        for i, names in enumerate(graph.updates)
        for name in sorted(names)
        if not is_state(graph, name)
    ]

    def order(users: Mapping[int, Sequence[int]]) -> UpdateOrder:
        return UpdateOrder(graph.graph, users)

    actors = {i: actor_of(graph, actor) for i, actor in enumerate(graph.actors)}
    yield from updates.bad_updates(Updates(actors, writes, order, order))


def idle_updates(graph: ProgramGraph) -> Iterator[Finding]:
    """Variables that an actor says to update, though no kernel of it writes them."""
    for index, actor in enumerate(graph.actors):
        for update in actor.update_list:
            if (name := update.names[0]) not in graph.updates[index]:
                text = f"@{actor.sym_name.data} updates @{name}, but no kernel of it "
                yield actor, f"{text}alone writes that"


def shared_updates(graph: ProgramGraph) -> Iterator[Finding]:
    """
    Steps that use bytes of a variable after a kernel of their actor has written it, or
    give a kernel that does some of them twice.
    """
    for actor in dict.fromkeys(graph.actors):
        for update in actor.update_list:
            yield from shared_update(graph, actor, update.names[0])


def shared_update(
    graph: ProgramGraph, actor: ActorOp, variable: str
) -> Iterator[Finding]:
    """The steps of an actor that use a variable twice, or after it was written."""
    roots, spans = roots_within(actor.body.block), graph.all_spans
    is_written = False
    for step in steps_within(actor.body.block):
        if not isinstance(step, CallOp | CopyOp):
            continue
        used = [
            root
            for name in names_in(step)
            for root in roots.get(name, (name,))
            if root in spans and shared_by(spans[root], spans[variable])
        ]
        is_in_loop = step.parent_op() is not actor
        writes = variable in (
            root for name in graph.effects(step)[1] for root in roots.get(name, (name,))
        )
        if used and (is_written or (writes and len(used) > 1)) and not is_in_loop:
            yield (
                step,
                f"@{actor.sym_name.data} updates @{variable}, but uses its bytes "
                f"{'again' if is_written else 'twice'}",
            )
        is_written |= writes


def names_in(step: CallOp | CopyOp) -> Sequence[str]:
    """The names that a step is given."""
    if isinstance(step, CallOp):
        return names_of(step.arguments)
    return [step.source.root_reference.data, step.target.root_reference.data]


def actor_of(graph: ProgramGraph, actor: ActorOp) -> Actor:
    """An actor, as the rules see it."""
    return Actor(
        actor,
        f"@{actor.sym_name.data}",
        is_uncertain(graph, actor),
        fails_remotely(actor),
        commits_in(actor),
        fails_late=not fails_first(graph, actor),
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
    """
    Whether an actor calls no kernel after it has written a variable, and none that
    writes one. A loop that does both does so in another iteration, too.
    """
    if actor.update_list:
        return False
    roots, has_written = roots_within(actor.body.block), False
    for step in actor.body.block.ops:
        parts = [
            step,
            *(x for region in step.regions for x in steps_within(region.block)),
        ]
        writes = any(
            graph.is_variable(root)
            for part in parts
            if isinstance(part, CopyOp)
            for root in roots_of_target(part, roots)
        )
        calls = any(isinstance(part, CallOp) for part in parts)
        if calls and (has_written or writes):
            return False
        has_written = has_written or writes
    return not fails_remotely(actor)


def roots_of_target(copy: CopyOp, roots: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The registers and variables that a copy writes, by the roots of local names."""
    name = copy.target.root_reference.data
    return roots.get(name, (name,))
