"""
List the tasks of each plan in an order that needs little memory, or little time.

A value is alive from the task that makes it to the last one that reads it, both
included. The measure is the largest number of bytes that are alive at a step, of each
memory; where several devices compute, those that tasks of each device make count by
themselves. Variables, which are always alive, are not counted; a value with several
slots counts as often. A task of a loop or condition needs, while it acts, what the
order of its body needs, which is found first; in a body only what lies in its memory
counts, not what it reads, slices or yields. With `in-place`, a result may take the
place of an operand of the same size that its op can overwrite and that nobody reads
later.

* `memory` looks for the fewest bytes. It chooses among list schedules, and visits sets
  of tasks, for as long as `budget` lasts, to improve on them or to see that nothing
  can. Stretches of tasks that are not above what is needed elsewhere keep their order.
  Where several devices compute, the parts of an op (`<name>@<device>`), listed one
  after the other, move together, and an order is taken only if bytes times time get
  less: saving a share of the bytes may not cost a greater share of the time.
* `early-updates` keeps the order, but has tasks that free at least as many bytes as
  they make, or add less than 1/4096 of the peak, run as soon as they can, within what
  the order needs already.
* `overlap` looks for the least time: it compares the order as it is; with copies, and
  tasks that are part of a collective, as soon as their operands are there; and with the
  tasks that most time depends on first, of all or of those that can begin when a stream
  gets free. Of orders that end at once that with the fewest bytes is taken. It may need
  more memory.
* `source` keeps the order.

Other policies are those of plug-ins (`docs/plugins/task-order.md`).

No task runs before one whose result it reads, or after which a control register orders
it; inputs and outputs move like all others. The order that was there is that of the
list, but for tasks that control registers order after later ones, which come after
these. The parts of a collective act at once, so they are listed together. A reader of a
value that a task listed later must write over (`in_place`) stays before it. But for
`overlap`, no memory has more live bytes than in that order, and it stays unless another
one is better. Where tasks move, variables are listed first. The attribute `live_bytes`
of a plan says how many bytes are alive at most in the order that was there (`source`)
and in the new one (`ordered`), and how many no order can do without (`lower_limit`, as
far as is known), each summed over all memories. Where time counts, `order_ns` says when
the last task ends in either order. Times are those of `plan-assign-streams`, with one
stream of each kind on each device.

A value of dynamic shape counts with its maximum (`max_shape` of its task). Plans with
the attribute `live_bytes`, with registers that hold bytes, or with tasks that have an
`order`, are left alone, and so are those with values of unknown size.

Example: `test/lowering/plan/plan-order-tasks-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.plan import PlanOp
from penstock.dialects.regst import MAX_BYTES
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.lowering.algorithms.list_scheduling import in_order
from penstock.lowering.algorithms.ordering.limits import limits_of_memories
from penstock.lowering.algorithms.ordering.policies import order_policy
from penstock.lowering.algorithms.ordering.problem import peaks_of
from penstock.lowering.algorithms.ordering.strategies import DEFAULT_BUDGET
from penstock.lowering.analysis.body_plans import plans_and_bodies
from penstock.lowering.analysis.task_order import TaskOrder
from penstock.lowering.analysis.task_times import Machine, findings_about_times
from penstock.lowering.plan.ordering_problem import PlanProblem, has_sizes

REPORT = "live_bytes"
"""The attribute of a plan that says what its order needs."""


TIMES = "order_ns"
"""The attribute of a plan that says when its last task ends, where that counts."""


def is_to_order(plan: PlanOp) -> bool:
    """Whether the order of a plan's tasks is still open, and their sizes are known."""
    if REPORT in plan.attributes or not plan.is_on_values or plan.is_merged:
        return False
    return all(task.order is None and has_sizes(task) for task in plan.tasks)


def findings_about(order: TaskOrder, machine: Machine) -> Iterator[Finding]:
    """All that keeps a plan from being ordered."""
    yield from findings_about_times(order.plan, machine)
    yield from order.findings()


def order_tasks(
    listed: TaskOrder, options: PlanOrderTasksPass, machine: Machine
) -> None:
    """Order the tasks of a plan, and say what that did."""
    given, plan = PlanProblem(listed, options.in_place), listed.plan
    problem = given.problem
    if sum(problem.sizes) >= MAX_BYTES:
        # No order helps, and memory planning says what is wrong.
        return
    request = given.request(options.budget, machine)
    order = order_policy(options.policy)(request)
    limit = max(sum(limits_of_memories(problem)), request.limit)
    if options.policy != "source":
        order = given.grouped(order)
    given.write(order)
    both = {"source": problem.source, "ordered": order}
    needs = {key: sum(peaks_of(problem, order)) for key, order in both.items()}
    plan.attributes[REPORT] = report_of({**needs, "lower_limit": limit})
    if request.is_timed:
        jobs = request.jobs
        ends = {key: in_order(jobs, order).makespan for key, order in both.items()}
        plan.attributes[TIMES] = report_of(ends)


def report_of(numbers: Mapping[str, int]) -> DictionaryAttr:
    """Numbers by their names, as an attribute."""
    return DictionaryAttr({k: IntegerAttr(n, i64) for k, n in numbers.items()})


@dataclass(frozen=True)
class PlanOrderTasksPass(ModulePass):
    """
    List the tasks of each plan in an order that needs little memory, or little time.
    """

    name = "plan-order-tasks"

    policy: str = "memory"
    """`memory`, `early-updates`, `overlap`, `source`, or a plug-in's."""

    in_place: bool = False
    """Count results that can take the place of an operand as if they will."""

    budget: int = DEFAULT_BUDGET
    """
    The number of effects of tasks that `memory` may look at, past the list schedules.
    """

    machine: tuple[str, ...] = ()
    """Rates of kinds of devices, such as `"cuda gflops=60000 gbytes=3300"`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        order_policy(self.policy)
        if self.budget < 0:
            raise PassFailedException(f"budget must not be negative, got {self.budget}")
        machine = Machine.parse(self.machine)
        found = plans_and_bodies(op)
        plans = [plan for plan in found if is_to_order(plan)]
        orders = [TaskOrder(plan) for plan in plans]
        fail_if_any(
            found for order in orders for found in findings_about(order, machine)
        )
        for order in orders:
            order_tasks(order, self, machine)
