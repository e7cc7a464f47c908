"""
Rules of `verify-plan` about bytes that registers share, because of their places or
because they are aliases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import BlockArgument

from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import TaskOp, name_of
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.marked_graph import (
    Storage,
    clashes,
    common_bytes,
    marks_of,
    slots_meet,
)
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.lowering.verify.plan_rules.jobs import Jobs, Stored, bad_sharing
from penstock.lowering.verify.plan_rules.rates import (
    ActGraph,
    badly_overwritten,
    clashing,
    is_unrolled,
    meet,
)

FRAMES = ", several slots on each of its own, but does not show it so often"


def shared_bytes(plan_graph: PlanGraph) -> Iterator[Finding]:
    """
    Registers that share bytes and may be in use together. The plan's graph has no cycle
    without a token.
    """
    stored = plan_graph.storages()
    if is_unrolled(plan_graph):
        yield from shared_with_rates(plan_graph, stored)
        yield from bad_sharing(plan_graph, stored)
        return
    related: list[tuple[RegisterOp, RegisterOp]] = []
    apart = Jobs(plan_graph).apart(stored)
    registers, storages = list(apart), list(apart.values())
    for i, j in clashes(plan_graph.graph, storages):
        if plan_graph.shares(registers[i], registers[j]):
            related.append((registers[i], registers[j]))
        elif bytes_meet(plan_graph, registers[i], registers[j], stored):
            yield clash(registers[i], registers[j], storages[i], storages[j])
    yield from bad_overwrites(plan_graph, stored, related)
    yield from bad_sharing(plan_graph, stored)


def shared_with_rates(plan_graph: PlanGraph, stored: Stored) -> Iterator[Finding]:
    """The same of a plan with rates, act by act."""
    acts, apart = ActGraph(plan_graph), Jobs(plan_graph).apart(stored)
    if acts.graph.cycles:
        return
    for a, b in clashing(acts, apart):
        if plan_graph.shares(a, b):
            is_bad = badly_overwritten(plan_graph, acts, stored, (a, b))
        else:
            one = a, plan_graph.storage_against(a, stored[b])
            other = b, plan_graph.storage_against(b, stored[a])
            is_bad = meet(acts, one, other)
        if is_bad:
            yield clash(a, b, stored[a], stored[b])


def bytes_meet(
    plan_graph: PlanGraph, a: RegisterOp, b: RegisterOp, stored: Stored
) -> bool:
    """
    Whether tasks that name bytes which two registers share may use them together. Users
    that only see other bytes of them, in a view of a part, do not count.
    """
    one = plan_graph.storage_against(a, stored[b])
    other = plan_graph.storage_against(b, stored[a])
    return slots_meet(plan_graph.graph, one, other)


def clash(a: RegisterOp, b: RegisterOp, first: Storage, second: Storage) -> Finding:
    """That two registers may be in use together."""
    return (
        b,
        f"registers '{a.register_name.data}' and '{b.register_name.data}' share "
        f"{common_bytes(first, second)} bytes, but may be in use at the same time",
    )


def bad_overwrites(
    plan_graph: PlanGraph,
    stored: dict[RegisterOp, Storage],
    pairs: Sequence[tuple[RegisterOp, RegisterOp]],
) -> Iterator[Finding]:
    """
    Of pairs of registers that share bytes because of aliases, and that tasks may use
    together, those that are not used by the same task only, which overwrites the one.
    """
    graph = plan_graph.graph
    position = {actor: i for i, actor in enumerate(graph.order)}
    writers = list(dict.fromkeys(x for pair in pairs for x in writers_of(pair, stored)))
    marks = marks_of(graph, writers)
    same_act = graph.after(marks)
    next_act = graph.after_up_to_next_act(marks)
    bit = {writer: 1 << i for i, writer in enumerate(writers)}
    for pair in pairs:
        fixed = [register for register in pair if stored[register].writer is None]
        if fixed:
            # That something is written over a variable is said elsewhere.
            if any(plan_graph.root(r) != r.register for r in fixed):
                yield clash(*pair, *(stored[register] for register in pair))
            continue
        a, b = sorted(pair, key=lambda register: position[plan_graph.writer[register]])
        later = plan_graph.writer[b]
        late = [
            user
            for user in plan_graph.storage_against(a, stored[b]).users
            if user != later and not same_act[user] & bit[later]
        ]
        yield from late_users(plan_graph, a, b, late)
        first, slots = plan_graph.writer[a], plan_graph.facts[a].slots
        is_over = all(
            next_act[user] & bit[first] or graph.reaches(user, first, slots)
            for user in plan_graph.storage_against(b, stored[a]).users
        )
        if not late and not is_over:
            yield clash(a, b, stored[a], stored[b])


def writers_of(
    pair: tuple[RegisterOp, RegisterOp], stored: dict[RegisterOp, Storage]
) -> Iterator[int]:
    """The tasks that write two registers."""
    for register in pair:
        if (writer := stored[register].writer) is not None:
            yield writer


def late_users(
    plan_graph: PlanGraph, victim: RegisterOp, over: RegisterOp, late: Sequence[int]
) -> Iterator[Finding]:
    """That tasks may use bytes after they have been overwritten."""
    task = plan_graph.tasks[plan_graph.writer[over]]
    for user in late:
        name = plan_graph.tasks[user].task_name.data
        how = "write" if user == plan_graph.writer[victim] else "read"
        what = overwrites(task, over, victim)
        yield task, f"{what}, which '{name}' may {how} later"


def bad_aliases(plan_graph: PlanGraph) -> Iterator[Finding]:
    """Results that lie where they have no reason to, or where their op cannot work."""
    parts = parts_of_views(plan_graph)
    for register, writer in plan_graph.writer.items():
        task, sources = plan_graph.tasks[writer], plan_graph.sources[register]
        root = plan_graph.root(register).owner
        if isinstance(root, RegisterOp) and root is not register:
            # What has no bytes is neither read nor written anywhere.
            is_over = bool(sources) or register in parts or not register.size
            if root in plan_graph.variables and not plan_graph.is_view[writer]:
                yield task, overwrites(task, register, root) + ", a variable"
            if plan_graph.facts[register].frames > 1 and not plan_graph.shows_frames(
                writer
            ):
                yield task, overwrites(task, register, root) + FRAMES
            if not is_over:
                yield (
                    task,
                    overwrites(task, register, root) + ", which it does not read",
                )
        if not plan_graph.is_view[writer]:
            for source in sources:
                if not can_work_in_place(plan_graph, register, source):
                    reason = f", but {task.op.name} cannot work in place"
                    yield task, overwrites(task, register, source) + reason


def parts_of_views(plan_graph: PlanGraph) -> set[RegisterOp]:
    """The registers whose bytes tasks that write nothing hand on."""
    found: set[RegisterOp] = set()
    pending = [
        source
        for register, writer in plan_graph.writer.items()
        if plan_graph.is_view[writer]
        for source in plan_graph.sources[register]
    ]
    while pending:
        register = pending.pop()
        if register not in found:
            found.add(register)
            pending += plan_graph.sources.get(register, [])
    return found


def overwrites(task: TaskOp, alias: RegisterOp, over: RegisterOp) -> str:
    """The start of a message: what a task writes over what."""
    return (
        f"task '{task.task_name.data}' writes '{name_of(alias.register)}' "
        f"over '{name_of(over.register)}'"
    )


def can_work_in_place(
    plan_graph: PlanGraph, result: RegisterOp, source: RegisterOp
) -> bool:
    """Whether an op may write a result over what it reads of the same bytes."""
    writer = plan_graph.writer[result]
    op, access = plan_graph.tasks[writer].op, plan_graph.access[writer]
    if not isinstance(op, TensorOp):
        return False
    index = access.written.index(result.register)
    read = {
        operand
        for operand, value in enumerate(op.operands)
        if isinstance(value, BlockArgument)
        and access.read[value.index] is source.register
    }
    allowed = {
        pair.operand
        for pair in op.in_place_pairs()
        if pair.result == index
        and (pair.view or source.register.type == result.register.type)
        and plan_graph.lies_as_paired(writer, pair)
    }
    return read <= allowed
