"""Rules of `verify-plan` about hints in the text of a plan (`in_place`)."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import BlockArgument, SSAValue

from penstock.dialects.op.in_place import MUST, NEVER, HintAttr, hints_of
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import TaskOp, name_of
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.verify.plan_rules.graph import PlanGraph


def bad_hints(plan_graph: PlanGraph) -> Iterator[Finding]:
    """
    Results with places that are not over an operand that they must lie over, or over
    one that they never may.
    """
    for index, task in enumerate(plan_graph.tasks):
        if not isinstance(task.op, TensorOp):
            continue
        for hint in hints_of(task.op):
            yield from _broken(plan_graph, index, task, hint)


def _broken(
    plan_graph: PlanGraph, index: int, task: TaskOp, hint: HintAttr
) -> Iterator[Finding]:
    access, number = plan_graph.access[index], hint.result.data
    if number >= len(access.written):
        return
    result = access.written[number]
    for operand, value in enumerate(task.op.operands):
        if hint.over not in (None, operand) or not isinstance(value, BlockArgument):
            continue
        source = access.read[value.index]
        over = f"'{name_of(result)}' over '{name_of(source)}'"
        if hint.word.data == NEVER and _share(plan_graph, result, source):
            yield (
                task.op,
                f"{task.op.name} never writes {over}, but the two share bytes",
            )
        if hint.word.data == MUST and not _is_over(plan_graph, index, hint):
            yield task.op, f"{task.op.name} must write {over}, but does not"


def _share(plan_graph: PlanGraph, a: SSAValue, b: SSAValue) -> bool:
    """Whether two registers have bytes in common because of aliases."""
    one, other = a.owner, b.owner
    assert isinstance(one, RegisterOp), "tasks write registers"
    return isinstance(other, RegisterOp) and plan_graph.shares(one, other)


def _is_over(plan_graph: PlanGraph, index: int, hint: HintAttr) -> bool:
    """Whether a result lies as its op says that it may; yes where it has no place."""
    result = plan_graph.access[index].written[hint.result.data]
    owner = result.owner
    assert isinstance(owner, RegisterOp), "tasks write registers"
    root = plan_graph.root(owner).owner
    if not isinstance(root, RegisterOp) or root.block is None:
        return True
    op = plan_graph.tasks[index].op
    return isinstance(op, TensorOp) and any(
        plan_graph.lies_as_paired(index, pair)
        for pair in op.in_place_pairs()
        if (pair.operand, pair.result) == (hint.over, hint.result.data)
    )
