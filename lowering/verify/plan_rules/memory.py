"""
Rules of `verify-plan` about bytes that registers share, because of their places or
because they are aliases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import BlockArgument, Operation

from penstock.dialects.job import InputOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import TaskOp, name_of
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.byte_spans import shared_by
from penstock.lowering.analysis.body_jobs import number_of
from penstock.lowering.analysis.body_plans import is_body, tasks_within
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.lowering.verify.plan_rules.jobs import Jobs, bad_sharing
from penstock.lowering.verify.plan_rules.rates import ActGraph, is_unrolled
from penstock.lowering.verify.plan_rules.updates import updates_in_place
from penstock.lowering.verify.plan_rules.uses import Pieces
from penstock.lowering.verify.shared_rules.memory import Misuse, Reuse, clashing
from penstock.lowering.verify.shared_rules.uses import Uses

FRAMES = ", several slots on each of its own, but does not show it so often"


def shared_bytes(by_task: Pieces) -> Iterator[Finding]:
    """
    Registers that share bytes and may be in use together. The plan's graph has no cycle
    without a token.
    """
    plan_graph, pieces = by_task.plan, by_task
    if is_unrolled(plan_graph):
        pieces = Pieces(plan_graph, ActGraph(plan_graph))
    if not pieces.graph.cycles:
        yield from Sharing(pieces).findings()
    yield from bad_sharing(plan_graph, by_task.stored)


def carried_in(plan_graph: PlanGraph) -> list[RegisterOp]:
    """The registers of a loop's body whose bytes hold what iterations hand on."""
    found: list[RegisterOp] = []
    tasks = tasks_within(plan_graph.plan) if is_body(plan_graph.plan) else ()
    for task in tasks:
        op, (register,) = task.op, task.outs
        is_number = isinstance(op, InputOp) and number_of(op) == 0
        if not is_number and isinstance(register.owner, RegisterOp):
            found.append(register.owner)
    return found


class Sharing:
    """
    The pairs of registers that share bytes. *Related* ones do because of aliases, and
    use the same slots piece by piece. Of others, with rates, all slots count as one.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._plan, self._pieces = pieces.plan, pieces
        tasks = zip(self._plan.tasks, pieces.repetitions, strict=True)
        self._actors = [
            name
            for task, repetitions in tasks
            for name in [f"task '{task.task_name.data}'"] * repetitions
        ]
        self._labels = {
            name: f"'{register.register_name.data}'"
            for name, register in pieces.registers.items()
        }

    def findings(self) -> Iterator[Finding]:
        """The pairs that may be in use together."""
        yield from self._over_carried()
        related: dict[tuple[RegisterOp, RegisterOp], None] = {}
        others: list[tuple[str, str]] = []
        for a, b in self._clashing():
            pair = self._pieces.registers[a], self._pieces.registers[b]
            fixed = [register for register in pair if register not in self._plan.writer]
            are_related = self._plan.shares(*pair)
            if fixed:
                # That something is written over a variable is said elsewhere.
                if not are_related or any(self._is_alias(x) for x in fixed):
                    name = fixed[0].register_name.data
                    yield self._clash(*pair, f"'{name}' lasts from run to run")
            elif are_related:
                related[pair] = None
            else:
                others.append((a, b))
        yield from self._misused(self._pieces.whole, others)
        pairs: list[tuple[str, str]] = []
        for one, other in related:
            if self._have_same_pieces(one, other):
                names = self._pieces.names
                pairs += zip(names[one], names[other], strict=True)
            else:
                yield self._clash(one, other, "have other slots or pieces")
        yield from self._misused(self._pieces.exact, pairs)

    def _over_carried(self) -> Iterator[Finding]:
        """
        Registers on bytes that iterations hand on, whenever they are used: those bytes
        are the place of the next value, too, which any task may have written.
        """
        names, spans = self._pieces.names, self._pieces.whole.acts.spans
        placed = {
            register: [spans[name] for name in own if name in spans]
            for register, own in names.items()
        }
        for carried in carried_in(self._plan):
            for other, found in placed.items():
                if other is carried or self._plan.shares(carried, other):
                    continue
                if any(shared_by(a, b) for a in placed.get(carried, ()) for b in found):
                    name = carried.register_name.data
                    why = f"'{name}' lasts from iteration to iteration"
                    yield self._clash(carried, other, why)

    def _clashing(self) -> Iterator[tuple[str, str]]:
        registers, stored = self._pieces.registers, self._pieces.whole.storages
        apart = Jobs(self._plan).apart(registers, stored)
        for a, b in clashing(self._pieces.whole, apart):
            if registers[a] is not registers[b]:
                yield a, b

    def _is_alias(self, register: RegisterOp) -> bool:
        return self._plan.root(register) is not register.register

    def _have_same_pieces(self, one: RegisterOp, other: RegisterOp) -> bool:
        names, facts = self._pieces.names, self._plan.facts
        return self._pieces.acts is None or (
            len(names[one]) == len(names[other])
            and facts[one].slots == facts[other].slots
        )

    def _misused(
        self, uses: Uses, pairs: Sequence[tuple[str, str]]
    ) -> Iterator[Finding]:
        reuse, told = Reuse(uses, pairs), set[tuple[RegisterOp, RegisterOp]]()
        for a, b in pairs:
            pair = self._pieces.registers[a], self._pieces.registers[b]
            if pair not in told and (why := reuse.misuse(a, b)) is not None:
                told.add(pair)
                op, text = self._clash(*pair, why.text(self._actors, self._labels))
                if self._plan.shares(*pair) and self._pieces.acts is None:
                    op = self._culprit(why)
                yield op, text

    def _culprit(self, why: Misuse) -> Operation:
        if why.is_again:
            return self._pieces.registers[why.used]
        return self._plan.tasks[why.writer]

    def _clash(self, one: RegisterOp, other: RegisterOp, why: str) -> Finding:
        """That two registers may be in use together."""
        spans, names = self._pieces.whole.acts.spans, self._pieces.names
        shared = shared_by(spans[names[one][0]], spans[names[other][0]])
        return (
            other,
            f"registers '{one.register_name.data}' and '{other.register_name.data}' "
            f"share {shared} bytes, but {why}",
        )


def bad_aliases(plan_graph: PlanGraph) -> Iterator[Finding]:
    """Results that lie where they have no reason to, or where their op cannot work."""
    parts = parts_of_views(plan_graph)
    in_place = updates_in_place(plan_graph)
    for register, writer in plan_graph.writer.items():
        task, sources = plan_graph.tasks[writer], plan_graph.sources[register]
        root = plan_graph.root(register).owner
        if isinstance(root, RegisterOp) and root is not register:
            # A register without bytes may lie anywhere: nothing is written there.
            is_over = bool(sources) or register in parts or not register.size
            is_new = register in in_place
            is_fixed = root in plan_graph.variables and not is_new
            if is_fixed and not plan_graph.is_view[writer]:
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
