"""
Remove control edges that other edges imply (transitive reduction), and write the
remaining waits between streams as events.

*Control registers* go that others make unnecessary: if a control register orders a task
after another one, and there are other registers by way of which the one waits for the
same act of the other, or a later one, and so for both directions and each task that
waits for it, then it changes nothing. Of equal ones the first in the list stays.

*Events*: the tasks of a stream run one after the other, in the order of `order` (as
they are listed if one of them has none). A register that has no full slot at the start
orders its readers after its writer, and one that has no free slot its writer after its
readers. Where such an order is between two streams it takes an event, unless it follows
from the order of streams and from other events: so each task waits for the last task of
another stream only, and for none that another task it waits for has waited for. The
remaining events are the fewest that cover all orders within one act. The attribute
`waits_for` of a task names the tasks whose events it has to wait for; tasks without it
have none to wait for. Where tasks are ordered between streams, `events` of the plan
says how many pairs of them are (`crossing`), and how many take an event (`needed`).
Variables never act. This is right for an executor that starts the tasks of a stream in
their order.

In a plan with rates control registers go in the same way, act by act: all acts of a
launch are looked at, up to 16,384 of them. Its tasks wait for no events, as these are
of acts that all tasks make equally often: `no_events` of the plan says so.

Plans without registers are left alone, and so are those whose tasks still pass values,
which order tasks, too. So is a merged plan, whose tasks name their jobs: the plan of
each job has been here before, and the tasks of a main job wait for only some of their
registers at a time, so that nothing implies these.

Example: `test/lowering/plan/plan-reduce-events-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.plan import PlanOp, Ports, TaskOp
from penstock.dialects.regst import ControlType
from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.event_reduction import (
    Order,
    OwnEdge,
    implied_by_others,
    implied_registers,
    needed_events,
)
from penstock.lowering.algorithms.marked_graph import Edge
from penstock.lowering.algorithms.unrolled_order import MAX_ACTS, Acts, Queue
from penstock.lowering.analysis.acting_order import streams_of
from penstock.lowering.analysis.plan_waits import (
    WAITS_FOR,
    PlanWaits,
    findings_about_waits,
    orders_of,
)
from penstock.lowering.analysis.repetitions import PlanRates, rates_of

REPORT = "events"
"""The attribute of a plan that counts orders between streams, and events."""

NO_EVENTS = "no_events"
"""The attribute of a plan that says why its tasks wait for no events."""

AT_RATES = "rates: events are of acts that all tasks make equally often"


def is_of_one_job_on_registers(plan: PlanOp) -> bool:
    """Whether registers say all that orders the tasks of a plan of one job."""
    has_values = any(task.results_ for task in plan.tasks)
    return bool(plan.registers) and not has_values and not plan.is_merged


def implied_controls(
    found: PlanWaits, rates: PlanRates, controls: Collection[int]
) -> Sequence[int]:
    """Those of some control registers that others make unnecessary."""
    waits = found.waits
    if not rates.is_rated:
        return implied_registers(waits.tasks, waits.registers, controls)
    repetitions = [rates.repetitions[task] for task in found.tasks]
    if sum(repetitions) > MAX_ACTS:
        return ()
    acts = Acts(repetitions)
    own = [
        [OwnEdge(Edge(*e), index) for queue in queues for e in acts.edges_of(queue)]
        for index, queues in enumerate(queues_of(found, rates))
    ]
    slots = [register.slots for register in waits.registers]
    fixed = [Edge(*edge) for edge in acts.edges(())]
    return implied_by_others(acts.count, own, slots, controls, fixed)


def queues_of(found: PlanWaits, rates: PlanRates) -> Iterator[list[Queue]]:
    """For each register the pieces that pass to each of its readers."""
    for register, numbers in zip(found.registers, found.waits.registers, strict=True):
        writer, readers, slots, full = numbers
        pieces = rates.pieces(register.register)
        yield [
            Queue(writer, reader, pieces, full, slots - full)
            for reader in dict.fromkeys(readers)
        ]


def remove_implied_controls(found: PlanWaits, rates: PlanRates) -> frozenset[int]:
    """Remove control registers that others make unnecessary; which ones."""
    controls = [
        index
        for index, register in enumerate(found.registers)
        if isinstance(register.register.type, ControlType)
    ]
    waits = found.waits
    removed = frozenset(implied_controls(found, rates, controls))
    values = {found.registers[index].register for index in removed}
    ends: set[int] = set()
    for index in removed:
        ends.update((waits.registers[index].writer, *waits.registers[index].readers))
    for task in ends:
        disconnect(found.tasks[task], values)
    for index in sorted(removed):
        register = found.registers[index]
        register.detach()
        register.erase()
    return removed


def disconnect(task: TaskOp, removed: Collection[SSAValue]) -> None:
    """Let a task neither wait for nor signal these registers."""
    ins, outs, *control = task.ports
    left = ([value for value in values if value not in removed] for values in control)
    task.connect(Ports(ins, outs, *left))


def write_events(plan: PlanOp, tasks: Sequence[TaskOp], orders: list[Order]) -> None:
    """Say for each task which events it waits for."""
    waits = needed_events(list(streams_of(tasks).values()), orders)
    for task, others in zip(tasks, waits, strict=True):
        task.attributes.pop(WAITS_FOR, None)
        if others:
            names = [tasks[other].task_name for other in others]
            task.attributes[WAITS_FOR] = ArrayAttr[StringAttr](names)
    streams = [(task.device, task.stream) for task in tasks]
    crossing = sum(streams[a] != streams[b] for a, b in orders)
    plan.attributes.pop(REPORT, None)
    if not crossing:
        return
    report = {"crossing": crossing, "needed": sum(map(len, waits))}
    plan.attributes[REPORT] = DictionaryAttr(
        {key: IntegerAttr(value, i64) for key, value in report.items()}
    )


@dataclass(frozen=True)
class PlanReduceEventsPass(ModulePass):
    """
    Say which tasks must wait for events of other streams, and remove implied control.
    """

    name = "plan-reduce-events"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = [x for x in outermost(op, PlanOp) if is_of_one_job_on_registers(x)]
        given = [(plan, PlanWaits.of(plan)) for plan in plans]
        fail_if_any(found for each in given for found in findings_about_waits(*each))
        for plan, found in given:
            rates = rates_of(plan)
            removed = remove_implied_controls(found, rates)
            count("controls removed", len(removed))
            if rates.is_rated:
                plan.attributes[NO_EVENTS] = StringAttr(AT_RATES)
            else:
                write_events(plan, found.tasks, orders_of(found.waits, removed))
