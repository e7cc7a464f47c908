"""
Aliases of `op.repeat` and `op.unpack`: results that lie in the register read, as
`regst-alias-registers` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import SSAValue

from penstock.dialects.op.in_place import NEVER, hints_of
from penstock.dialects.op.multirate import RateOp, RepeatOp, UnpackOp
from penstock.dialects.plan import PlanOp, TaskOp, name_of
from penstock.dialects.regst import DataType, RegisterOp
from penstock.dialects.utils.attributes import replace_op
from penstock.lowering.analysis.in_place_pairs import Refusal
from penstock.lowering.analysis.plan_waits import slots_of_value
from penstock.lowering.analysis.repetitions import rates_of
from penstock.lowering.regst.alias_rules import (
    NO_ALIAS,
    has_aliases,
    quoted,
    register_of,
)

ALIAS = DenseArrayBase.from_list(i32, [0, 1])
APART = DenseArrayBase.from_list(i32, [0, 0])
"""The operand segments of an alias, and of a register that is none."""


def show_frames(plan: PlanOp) -> None:
    """Let results lie in what is read, or note why they do not."""
    variables = {x for task in plan.tasks if task.kind == "variable" for x in task.outs}
    place = {register: i for i, register in enumerate(plan.registers)}
    free: list[TaskOp] = []
    for task in plan.tasks:
        if isinstance(task.op, RepeatOp | UnpackOp) and task.outs:
            found = chain(refusals(task, variables, place), chain_rule(task, free))
            refusal = next(found, None)
            if refusal is None:
                free.append(task)
            elif not refusal.startswith(("given", "no_alias")):
                refuse(task, refusal)
    lie_down(plan, free)


def refusals(
    task: TaskOp, variables: set[SSAValue], place: Mapping[RegisterOp, int]
) -> Iterator[Refusal]:
    """
    The reasons that keep the result of a task from lying in the register that it reads.
    Registers that lie on others are listed after these.
    """
    source, result = register_of(task.ins[0]), register_of(task.outs[0])
    name = quoted(name_of(source.register))
    if NO_ALIAS in result.attributes:
        yield "no_alias: it says so already"
    if result.target is not None:
        yield "given: it lies somewhere already"
    if any(hint.word.data == NEVER for hint in hints_of(task.op)):
        yield "never: a hint keeps it off operand 0"
    if source.register in variables:
        yield f"variable: {name} is one"
    if source.interface is not None or result.interface is not None:
        yield "interface: it has bytes that several jobs know"
    if source.memory_case != result.memory_case:
        yield f"memory: {name} lies in another one"
    if place[source] > place[result]:
        yield f"source: {name} is listed later"
    yield from alignment_rule(source, result)


def chain_rule(task: TaskOp, lying: Sequence[TaskOp]) -> Iterator[Refusal]:
    """Whether what is read, or lies on the result, is an alias, or is to be one."""
    source, result = task.ins[0], register_of(task.outs[0])
    given = register_of(source).target is not None
    if given or any(source is other.outs[0] for other in lying):
        yield f"source: {quoted(name_of(source))} lies on something else"
    below = any(result.register is other.ins[0] for other in lying)
    if below or has_aliases(result):
        yield "source: something else lies on it"


def alignment_rule(source: RegisterOp, result: RegisterOp) -> Iterator[Refusal]:
    """Whether parts start where they may."""
    whole, part = source.register.type, result.register.type
    assert isinstance(whole, DataType), "control is not repeated"
    assert isinstance(part, DataType), "control is not repeated"
    alignment = part.alignment(source.memory_case)
    if part.size < whole.size and part.size % alignment:
        yield f"alignment: byte {part.size} is no multiple of {alignment}"


def refuse(task: TaskOp, refusal: Refusal) -> None:
    """Note why the result of a task does not lie in what it reads."""
    register_of(task.outs[0]).attributes[NO_ALIAS] = StringAttr(refusal)


def lie_down(plan: PlanOp, tasks: Sequence[TaskOp]) -> None:
    """Let results lie in what is read as far as the slots of that allow it."""
    given = [register_of(task.outs[0]).slots for task in tasks]
    for task in tasks:
        lie(task)
    if not rates_of(plan).stuck(slots_of_value):
        return
    for task, slots in zip(tasks, given, strict=True):
        replace(task, None, slots)
    for task, slots in zip(tasks, given, strict=True):
        lie(task)
        if rates_of(plan).stuck(slots_of_value):
            replace(task, None, slots)
            name = quoted(name_of(task.ins[0]))
            refuse(task, f"slots: those of {name} would be held for too long")


def lie(task: TaskOp) -> None:
    """Let the result of a task lie in what it reads."""
    op, source = task.op, register_of(task.ins[0])
    assert isinstance(op, RateOp), "has been chosen"
    slots = source.slots.value.data * op.taken
    replace(task, source, IntegerAttr(slots, i64))


def replace(task: TaskOp, source: RegisterOp | None, slots: IntegerAttr) -> None:
    """Let the result of a task have so many slots in a register, or of its own."""
    result = register_of(task.outs[0])
    segments = APART if source is None else ALIAS
    made = RegisterOp.create(
        operands=[] if source is None else [source.register],
        properties={
            **result.properties,
            "slots": slots,
            "operandSegmentSizes": segments,
        },
        attributes=result.attributes,
        result_types=[result.register.type],
        location=result.location,
    )
    replace_op(result, made)
