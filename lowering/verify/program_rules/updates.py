"""
The actors of a program that write variables, for the rules of `verify-program` about
these.

An actor that can fail and copies to a variable does both copies last: it calls no
kernel after one. One whose kernels write variables, which it says by `updates`, cannot
fail, and uses none of their bytes otherwise once it writes them. In a loop that is for
the rules about what iterations read and write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

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
from penstock.lowering.algorithms.marked_graph import MarkedGraph
from penstock.lowering.algorithms.update_order import UpdateOrder
from penstock.lowering.verify.program_rules.graph import ProgramGraph, names_in
from penstock.lowering.verify.program_rules.states import is_state
from penstock.lowering.verify.shared_rules import updates
from penstock.lowering.verify.shared_rules.updates import Actor, Order, Updates, Write


def bad_updates(graph: ProgramGraph) -> Iterator[Finding]:
    """All that is wrong with copies to variables. No cycle is without a token."""
    yield from idle_updates(graph)
    yield from shared_updates(graph)
    if not any(graph.updates):
        return
    found: dict[Finding, None] = {}
    following = [*graph.iterations[1:], graph.iterations[0]]
    for acts, later in zip(graph.iterations, following, strict=True):
        own, next_act = {*acts}, dict(zip(acts, later, strict=True))
        writes = list(writes_of(graph, own))

        def order(
            users: Mapping[int, Sequence[int]], next_act: Mapping[int, int] = next_act
        ) -> Order:
            return IterationOrder(graph.graph, users, next_act)

        actors = {i: actor_of(graph, graph.actors[i]) for i in acts}
        job = Updates(actors, writes, order, order)
        found.update(dict.fromkeys(updates.bad_updates(job)))
    yield from found


def writes_of(graph: ProgramGraph, acts: Collection[int]) -> Iterator[Write]:
    """The acts of an iteration that write variables, for the others in it."""
    for act in sorted(acts):
        for name in sorted(graph.updates[act]):
            if not is_state(graph, name):
                users = graph.uses.storages[name].users
                others = [x for x in users if x != act and x in acts]
                yield Write(act, name, f"@{name}", others)


class IterationOrder:
    """
    The order of users and writers of variables in an iteration and up to the next one,
    given the act that follows each in that: in the last of those that count as one it
    is an act of the first.
    """

    def __init__(
        self,
        graph: MarkedGraph,
        users: Mapping[int, Sequence[int]],
        next_act: Mapping[int, int],
    ) -> None:
        self._next_act = next_act
        self._own = UpdateOrder(graph, users)
        written: dict[int, list[int]] = {}
        again: dict[int, list[int]] = {update: [] for update in users}
        for update, used in users.items():
            for user in used:
                if (following := next_act[user]) > user:
                    written.setdefault(following, []).append(update)
                else:
                    again[update].append(following)
        self._later = UpdateOrder(graph, written)
        self._again = self._own if again == users else UpdateOrder(graph, again)

    def comes_before(self, user: int, update: int) -> bool:
        """Whether the user is done before the writer writes."""
        return self._own.comes_before(user, update)

    def comes_again_after(self, user: int, update: int) -> bool:
        """Whether the writer has written before the user acts again."""
        following = self._next_act[user]
        if following > user:
            return self._later.comes_before(update, following)
        return self._again.comes_again_after(following, update)


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
