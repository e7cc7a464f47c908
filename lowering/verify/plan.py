"""
Check what must hold of a whole plan, from its registers and tasks alone.

A plan is a marked graph. A reader of a register acts for the n-th time after its writer
has acted for the (n - initial)-th time, and the writer after the reader has acted for
the (n - free)-th time, where `initial` slots are full and `free` ones are not when the
job starts. So each register is an edge with `initial` tokens to each reader and one
with `free` tokens back. A task also holds what was written first over the bytes of the
aliases it reads. Variables never act. A task whose op names views (`in_place_pairs`)
for all of its results writes nothing where these lie there: they have the bytes that
others wrote. Then

* each cycle of edges carries a token, else its tasks wait for each other forever; the
  message names the fewest registers that break all cycles with one more slot each, as
  `verify-deadlock` does;
* registers that share bytes are never in use together: all tasks that use the one reach
  the writer of the other without a token, and those of the other reach the writer of
  the one over at most one token; where both have several slots, some of which share no
  byte, only as far as acts use slots that do; what variables lie on, nothing is written
  to;
* where registers share bytes because of aliases, the writer of the other one may be the
  last to use the one, for an operand that its op can overwrite in place;
* the writer of an alias reads what it lies over, or the alias is a part that a view is
  made of;
* results lie over operands, once they have places, where hints (`in_place`) say that
  they must, and not where these say never;
* targets of assignments are variables, each once in a job, and all tasks of the job
  that use its bytes, under any name, act before that, and again after it; where an
  assignment `in_place` alone reads a register that lies on the variable, that holds of
  the task that writes this register instead, which cannot fail;
* no two tasks of a stream have the same order, and where all have one, a task comes
  after those of its stream that it has to wait for, also by way of other streams;
* where tasks wait for events (`waits_for`), these and the order of streams cover all
  orders within one act that registers make between tasks;
* pairs and groups are complete, and their sides fit: registers, copies, and the parts
  of variables, ops and collectives on several devices (`plan_rules/symmetry.py` says
  the rules);
* registers of a task, unless it copies, lie in the memory that kernels on its device
  work in, inputs and outputs included; for a CPU that is all memory of its host;
* registers of two jobs share bytes only if the jobs exclude each other, or as one
  interface, which lies in one place for all jobs; nothing else lies on variables and
  interfaces, which last from run to run, but views of them; tasks and aliases use what
  belongs to their own job, or variables;
* where jobs are linked to a main job, its lock keeps those apart that exclude each
  other, or use what one of them writes (`plan_rules/main_job.py`).

All violations are listed. A plan may be checked at each step from registers on: those
without places share no bytes yet, so there is less to be found. A plan on values is
refused, as there is nothing to be checked.

Example: `test/lowering/verify/verify-plan-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import MemoryCaseAttr
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.body_plans import plans_and_bodies
from penstock.lowering.analysis.plan_waits import PlanWaits, deadlocks_in
from penstock.lowering.verify.plan_rules.events import bad_events, equal_orders
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.lowering.verify.plan_rules.in_place import bad_hints
from penstock.lowering.verify.plan_rules.main_job import bad_main
from penstock.lowering.verify.plan_rules.memory import bad_aliases, shared_bytes
from penstock.lowering.verify.plan_rules.ranks import bad_ranks
from penstock.lowering.verify.plan_rules.symmetry import asymmetries
from penstock.lowering.verify.plan_rules.updates import bad_updates
from penstock.lowering.verify.plan_rules.uses import Pieces
from penstock.lowering.verify.plan_rules.waves import bad_waves


def findings_in(plan: PlanOp) -> Iterator[Finding]:
    """All that is wrong with a plan, each with the op it is about."""
    if any(task.results_ for task in plan.tasks):
        yield plan, "tasks hand on values, run plan-create-registers first"
        return
    plan_graph = PlanGraph(plan)
    yield from equal_orders(plan_graph.tasks)
    yield from acting_variables(list(plan_graph.variables.values()))
    yield from out_of_reach(plan_graph)
    yield from asymmetries(plan_graph)
    if plan_graph.rates.is_rated and (
        stuck := list(deadlocks_in(plan, PlanWaits.of(plan)))
    ):
        yield from stuck
        return
    if plan_graph.graph.cycles:
        # Registers that tasks hold besides those they read close no other cycles.
        yield from deadlocks_in(plan, PlanWaits.of(plan))
        return
    pieces = Pieces(plan_graph)
    yield from shared_bytes(pieces)
    yield from bad_aliases(plan_graph)
    yield from bad_hints(plan_graph)
    yield from bad_updates(pieces)
    yield from bad_events(plan_graph)
    yield from bad_main(plan_graph)
    yield from bad_waves(plan_graph)


def acting_variables(variables: Sequence[TaskOp]) -> Iterator[Finding]:
    """Variables that take part in control."""
    for task in variables:
        if task.waits or task.signals:
            yield (
                task,
                f"variable '{task.task_name.data}' waits or signals, but never acts",
            )


def out_of_reach(plan_graph: PlanGraph) -> Iterator[Finding]:
    """Registers in memory in which the kernels of their users cannot work."""
    cases: dict[DeviceAttr, MemoryCaseAttr] = {}
    for task, access in zip(plan_graph.tasks, plan_graph.access, strict=True):
        if task.kind in ("copy", "variable"):
            continue
        if (own := cases.get(task.device)) is None:
            own = cases[task.device] = MemoryCaseAttr.of(task.device)
        for register in dict.fromkeys((*access.ins, *access.outs)):
            case = register.memory_case
            is_near = own.is_host and case.is_host and case.rank == own.rank
            if not is_near and case != own:
                yield (
                    task,
                    f"task '{task.task_name.data}' works in {own}, but register "
                    f"'{register.register_name.data}' lies in {case}",
                )


@dataclass(frozen=True)
class VerifyPlanPass(ModulePass):
    """
    Check what must hold of a whole plan, from its registers and tasks alone.
    """

    name = "verify-plan"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = plans_and_bodies(op)
        found = [finding for plan in plans for finding in findings_in(plan)]
        fail_if_any([*found, *bad_ranks(outermost(op, PlanOp))])
