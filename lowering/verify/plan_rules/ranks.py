"""The plans of several ranks, as the rules between them see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from penstock.dialects.job import MESSAGES, CollectiveOp, ReceiveOp, SendOp
from penstock.dialects.plan import PlanOp, TaskOp, name_of
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.analysis.plan_waits import slots_of_value
from penstock.lowering.analysis.repetitions import PlanRates, rates_of
from penstock.lowering.verify.shared_rules.joint_graph import Link
from penstock.lowering.verify.shared_rules.ranks import (
    Actor,
    End,
    Part,
    RankProgram,
    findings_between,
)


def bad_ranks(plans: Sequence[PlanOp]) -> Iterator[Finding]:
    """All that is wrong between the plans of a module, on registers or on values."""
    if any(isinstance(x.op, MESSAGES) for plan in plans for x in plan.tasks):
        yield from findings_between([*map(rank_plan, plans)])


def rank_plan(plan: PlanOp) -> RankProgram:
    """A plan as a program of its rank: the waits of its tasks, and its messages."""
    rates = rates_of(plan)
    ends = [
        end_of(i, task.op)
        for i, task in enumerate(rates.tasks)
        if isinstance(task.op, SendOp | ReceiveOp)
    ]
    values: dict[SSAValue, int] = {}
    links = [
        link._replace(register=values.setdefault(value, len(values)))
        for value, link in links_of(rates)
    ]
    # One that was written alone says where its messages are.
    parts = [
        part_of(i, task.op)
        for i, task in enumerate(rates.tasks)
        if isinstance(task.op, CollectiveOp)
    ]
    both = (*ends, *parts)
    first = rates.tasks[both[0].actor].device.rank.data if both else 0
    actors = [actor_of(task, rates) for task in rates.tasks]
    rank = first if plan.rank is None else plan.rank.value.data
    names = [f"'{name_of(value)}'" for value in values]
    name = plan.sym_name.data
    return RankProgram(plan, name, rank, actors, links, names, ends, parts)


def actor_of(task: TaskOp, rates: PlanRates) -> Actor:
    """A task as messages name it."""
    name = f"'{task.task_name.data}'"
    return Actor(task, name, task.device.rank.data, rates.repetitions[task])


def end_of(task: int, op: SendOp | ReceiveOp) -> End:
    """The end of a message that an op is."""
    is_send = isinstance(op, SendOp)
    type = op.value.type if isinstance(op, SendOp) else op.result.type
    return End(task, is_send, op.device.rank.data, op.tag.value.data, type)


def part_of(task: int, op: CollectiveOp) -> Part:
    """The part in a collective that an op is."""
    exchange = op.exchange
    return Part(
        task,
        exchange.kind,
        exchange.algorithm,
        tuple(exchange.ranks),
        op.tag.value.data,
        tuple(exchange.sources),
        tuple(exchange.targets),
    )


def links_of(rates: PlanRates) -> Iterator[tuple[SSAValue, Link]]:
    """The values that tasks wait for, whose numbers as registers are not known yet."""
    if rates.is_rated:
        for link in rates.links:
            flow = link.flow
            pieces = rates.repetitions[rates.tasks[flow.source]] // flow.made
            slots = slots_of_value(link.value) - link.initial
            ends = flow.source, flow.target
            yield link.value, Link(*ends, 0, pieces, link.initial, slots)
        return
    # Those of a main job need less than all of their registers.
    tasks = [(i, task) for i, task in enumerate(rates.tasks) if task.kind != "main"]
    writer = {
        value: i
        for i, task in tasks
        for value in (*task.outs, *task.signals, *task.results_)
    }
    for reader, task in tasks:
        for value in dict.fromkeys((*task.ins, *task.waits)):
            if (source := writer.get(value)) is not None:
                full = initial_of(value)
                free = slots_of_value(value) - full
                yield value, Link(source, reader, 0, 1, full, free)


def initial_of(value: SSAValue) -> int:
    """The slots of a register that are full at the start."""
    owner = value.owner
    if not isinstance(owner, RegisterOp) or owner.initial is None:
        return 0
    return owner.initial.value.data
