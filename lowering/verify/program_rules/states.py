"""
The states of a program, through which values go from one act of actors to the next.

One actor writes a state, and all that use its bytes act as often as that one. Each of
them is done with it in its n-th act before it is written in the n-th act of that one,
and uses it in the next act after that, so that it finds what was written in the act
before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.dialects.launch import ActorOp, VariableOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.update_order import UpdateOrder
from penstock.lowering.verify.program_rules.graph import ProgramGraph


def is_state(graph: ProgramGraph, name: str) -> bool:
    """Whether a symbol is a variable that only its program knows."""
    return isinstance(op := graph.table[name], VariableOp) and op.is_state


def bad_states(graph: ProgramGraph) -> Iterator[Finding]:
    """All that is wrong with states. No cycle is without a token."""
    writers: dict[str, dict[ActorOp, list[int]]] = {}
    for act, names in enumerate(graph.updates):
        for name in sorted(names):
            if is_state(graph, name):
                actors = writers.setdefault(name, {})
                actors.setdefault(graph.actors[act], []).append(act)
    for name, actors in writers.items():
        (writer, acts), *others = actors.items()
        for other, _ in others:
            text = f"@{writer.sym_name.data} and @{other.sym_name.data} both write"
            yield other, f"{text} state @{name}"
        users: dict[ActorOp, list[int]] = {}
        for act in sorted(graph.uses.storages[name].users):
            users.setdefault(graph.actors[act], []).append(act)
        for user, used in users.items() if not others else ():
            if user is not writer:
                yield from unordered(graph, name, (writer, acts), (user, used))


def unordered(
    graph: ProgramGraph,
    name: str,
    writer: tuple[ActorOp, Sequence[int]],
    user: tuple[ActorOp, Sequence[int]],
) -> Iterator[Finding]:
    """An actor that may use a state in another turn than it should."""
    (op, writes), (other, uses) = writer, user
    where = f"@{other.sym_name.data} may use state @{name}"
    if len(writes) != len(uses):
        yield (
            op,
            f"@{other.sym_name.data} uses state @{name} in {len(uses)} acts, but "
            f"@{op.sym_name.data} writes it in {len(writes)}",
        )
        return
    own = UpdateOrder(
        graph.graph, {write: [use] for write, use in zip(writes, uses, strict=True)}
    )
    if not all(map(own.comes_before, uses, writes)):
        yield op, f"{where} after @{op.sym_name.data} has written it"
        return
    pairs = list(zip(writes[:-1], uses[1:], strict=True))
    later = UpdateOrder(graph.graph, {use: [write] for write, use in pairs})
    last = UpdateOrder(graph.graph, {writes[-1]: [uses[0]]})
    if not all(later.comes_before(*pair) for pair in pairs) or (
        not last.comes_again_after(uses[0], writes[-1])
    ):
        yield op, f"{where} again before @{op.sym_name.data} has written it"
